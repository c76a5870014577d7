mod journal;
mod payment;
mod replay;
