//! The program's errors: custom error numbers from [`FIRST_CODE`] on, apart from those of the token programs, which
//! come through with numbers of their own.

use core::fmt;

/// Number of the first error.
pub const FIRST_CODE: u32 = 6000;

macro_rules! errors {
    ($($(#[doc = $text:literal])+ $name:ident,)*) => {
        /// Why the program refuses. On chain it is `Custom(code)`. The numbers never change; new errors come at the end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum GatewayError {
            $($(#[doc = $text])+ $name,)*
        }

        impl GatewayError {
            /// All errors, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name, as here.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// What it means, in a sentence.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($text,)+).trim_ascii(),)*
                }
            }
        }
    };
}

errors! {
    /// The instruction has no known tag, or data of another length.
    InstructionInvalid,
    /// There are not exactly the accounts that the instruction takes.
    AccountsInvalid,
    /// An account that must sign did not.
    SignatureMissing,
    /// An account that is to be changed is not writable.
    AccountNotWritable,
    /// The system program was expected.
    SystemProgramInvalid,
    /// The token program is neither SPL Token nor Token-2022.
    TokenProgramInvalid,
    /// The sysvar of the transaction's instructions was expected.
    InstructionsSysvarInvalid,
    /// The program's configuration was expected.
    ConfigInvalid,
    /// The program is set up already.
    AlreadyInitialized,
    /// The program's own ProgramData account was expected.
    ProgramDataInvalid,
    /// The one who signs is not the program's upgrade authority.
    UpgradeAuthorityMismatch,
    /// The cluster's genesis hash is zero.
    ClusterMissing,
    /// The reserver is zero.
    ReserverMissing,
    /// The reserver is not the program's.
    ReserverNotAdmitted,
    /// There was a deposit for this payment already.
    PaymentIdUsed,
    /// The payer is zero.
    PayerMissing,
    /// The releaser is zero.
    ReleaserMissing,
    /// The settler is zero, or an account of the program itself.
    SettlerInvalid,
    /// The payer agreed to another quote.
    QuoteHashMismatch,
    /// `reserve_deadline <= fulfillment_deadline < refund_after` does not hold.
    WindowsOutOfOrder,
    /// It is later than `reserve_deadline`.
    ReserveWindowClosed,
    /// `fulfill_by` is over, or at a deposit not in the future.
    FulfillByPassed,
    /// `fulfill_by` is later than the payer's `fulfillment_deadline`.
    FulfillByTooLate,
    /// An amount is zero.
    AmountZero,
    /// More is asked for than the payer agreed to.
    AmountAboveCap,
    /// There is no Ed25519 instruction at the index named.
    SignatureInstructionMissing,
    /// The Ed25519 instruction has not exactly as many signatures as are asked for, at the canonical offsets.
    SignatureFormInvalid,
    /// The signature is another key's, or a set's members did not sign in order, each once.
    SignerMismatch,
    /// The signature is over something else.
    SignedMessageMismatch,
    /// The escrow's record was expected at its own address.
    EscrowInvalid,
    /// The escrow's vault was expected.
    VaultInvalid,
    /// The state of the escrow does not allow this.
    StateNotAllowed,
    /// From `refund_after` on only the refund is possible.
    ReleaseWindowClosed,
    /// The refund is possible from `refund_after` on.
    RefundWindowNotOpen,
    /// The record can be closed only 30 days after its last window.
    ReclaimTooEarly,
    /// The rent goes back to who paid it, and that is somebody else.
    RentPayerMismatch,
    /// The token's mint was expected.
    MintInvalid,
    /// The mint can take a fee of transfers.
    MintTransferFee,
    /// The mint calls a program of its own on transfers.
    MintTransferHook,
    /// The mint has a delegate who can take from every account.
    MintPermanentDelegate,
    /// The mint's tokens cannot be transferred.
    MintNonTransferable,
    /// The mint can hide amounts.
    MintConfidential,
    /// The mint's accounts can begin frozen.
    MintDefaultFrozen,
    /// The mint can stop all transfers.
    MintPausable,
    /// The mint has an extension that the program does not know to be harmless.
    MintExtensionUnknown,
    /// A token account is none, or another token program's, or not ready for use.
    TokenAccountInvalid,
    /// A token account is of another mint.
    TokenMintMismatch,
    /// A token account is somebody else's.
    TokenOwnerMismatch,
    /// The receiver's associated token account was expected.
    TokenAddressMismatch,
    /// The payer's token account has no allowance for the signer's delegate address.
    AllowanceMissing,
    /// The payer's allowance is too small.
    AllowanceTooSmall,
    /// There is too little in the token account.
    BalanceTooSmall,
    /// The vault did not get exactly the amount.
    ReceivedNotExact,
    /// The receiver did not get exactly the amount.
    DeliveredNotExact,
    /// The recipient is zero, a program, a token account or an account of the program itself.
    RecipientInvalid,
    /// The delivery's record was expected at its own address.
    FulfillmentInvalid,
    /// The same delivery was made before.
    AlreadyFulfilled,
    /// The record is another settler's.
    SettlerMismatch,
    /// The cluster's clock is before 1970.
    ClockInvalid,
    /// The verifier set has no threshold that its members can reach, too many members, or they do not ascend.
    VerifierSetInvalid,
    /// The verifier set is not the one that the payer signed for.
    VerifierSetMismatch,
    /// The escrow is reserved for another quote than the one named.
    ReservationMismatch,
    /// `fulfill_by` of the reservation is not over.
    ReservationNotOver,
    /// The escrow is reserved for this quote already.
    QuoteNotAnother,
    /// The escrow was reassigned as often as its record can count, or its deposit is too long ago.
    ReassignmentsUsedUp,
    /// The deposit address of the terms was expected.
    DepositAddressInvalid,
    /// Less would be deposited than the deposit address commits to.
    DepositTooSmall,
    /// The money may still be deposited: it is given back past `reserve_deadline`, or beside an escrow.
    GiveBackTooEarly,
    /// There is nothing to give back.
    NothingToGiveBack,
    /// The address of the merchant's offer was expected.
    OfferAddressInvalid,
    /// Another amount would be deposited than the offer commits to.
    DepositNotExact,
    /// `reserve_deadline` of a purchase is more than ten minutes ahead of the cluster's clock.
    ReserveDeadlineTooFar,
    /// The one who signs is neither the offer's merchant nor its reserver.
    CollectorMismatch,
}

impl GatewayError {
    /// The number in `Custom(code)`.
    pub const fn code(self) -> u32 {
        FIRST_CODE + self as u32
    }

    /// The error of a number, if it is one of the program's.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code.checked_sub(FIRST_CODE)? as usize).copied()
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.text())
    }
}

impl core::error::Error for GatewayError {}
