//! Several nodes: their newest blocks, and the settled block that two of them have.

use serde_json::{Value, json};

use alloy::primitives::U64;
use chains::{config::Depth, nodes::NodeReport};
use sagas::ports::Transient;

use super::{BlockRef, Header, Node, Question};

impl Node {
    /// What each node says of itself: whether it is of the chain, its newest block, and how far it lags.
    pub async fn node_reports(&self) -> Vec<NodeReport> {
        self.0.nodes.report(&by_number("latest".into()), |answer| Some(read(answer)??.number?.to())).await
    }

    /// The blocks that nodes call `tag`, each with the number of its node; of as many nodes as have to agree.
    async fn tagged(&self, tag: &'static str) -> Result<Vec<(usize, Header)>, Transient> {
        let answers = self.0.nodes.each(&by_number(tag.into())).await?;
        let mut headers = Vec::with_capacity(answers.len());
        for (node, answer) in answers {
            let header = read(&answer).ok_or_else(|| self.contradiction(format!("an unreadable block {tag}")))?;
            let header = header.ok_or_else(|| self.contradiction(format!("no block {tag}")))?;
            if let Some(number) = header.number.filter(|_| tag == "latest") {
                self.0.nodes.note_height(node, number.to());
            }
            headers.push((node, header));
        }
        Ok(headers)
    }

    /// The block that is `tag` for every node that was asked: the lowest of theirs.
    pub(super) async fn lowest(&self, tag: &'static str) -> Result<Option<Header>, Transient> {
        let headers = self.tagged(tag).await?;
        Ok(headers.into_iter().map(|(_, header)| header).min_by_key(|header| header.number))
    }

    /// The settled block by the word of two nodes: each of them has settled it, and has it at its number.
    pub(super) async fn settled_by_several(&self, known: Option<BlockRef>) -> Result<BlockRef, Transient> {
        let (tag, depth) = match self.0.config.common.required_depth {
            Depth::Finalized => ("finalized", 0),
            Depth::Confirmations(blocks) => ("latest", blocks),
        };
        let mut heads = Vec::new();
        for (node, header) in self.tagged(tag).await? {
            heads.push((node, self.block_of(&header)?));
        }
        let low = heads.iter().map(|(_, head)| *head).min_by_key(|head| head.number);
        let low = low.ok_or_else(|| self.contradiction("no newest block"))?;
        let block = self.ancestor(low, low.number.saturating_sub(depth)).await?;
        if known == Some(block) {
            return Ok(block);
        }
        let at = by_number(json!(U64::from(block.number)));
        for (node, head) in &heads {
            let found = match head.number == block.number {
                true => Some(*head),
                false => {
                    let answer = self.0.nodes.ask(*node, &at).await?;
                    read(&answer).flatten().map(|header| self.block_of(&header)).transpose()?
                }
            };
            if found != Some(block) {
                // Those who are alone with their word are found by the word of all.
                let agreed = self.block(block.number).await?;
                for (node, head) in &heads {
                    if agreed.is_some_and(|agreed| agreed.number == head.number && agreed != *head) {
                        self.0.nodes.note_disagreement(*node);
                    }
                }
                return Err(self.contradiction(format!("nodes differ in the settled block {}", block.number)));
            }
        }
        Ok(block)
    }
}

fn by_number(block: Value) -> Question {
    Question { method: "eth_getBlockByNumber", params: vec![json!([block, false])] }
}

/// The header that was answered; nothing at all where it cannot be read.
fn read(answer: &super::Answer) -> Option<Option<Header>> {
    serde_json::from_value(answer.first()?.as_ref().ok()?.clone()).ok()
}
