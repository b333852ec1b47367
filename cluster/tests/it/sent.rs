//! What is sent to workers: the plan, and nothing of the key, the seeds or the noise.

use std::sync::{Arc, Mutex};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::displayable;
use hushql_cluster::{Cluster, PlanCodec, Received, enrol};

use crate::study::{KEY, Noted, QUERIES, engine, write};
use hushql_engine::exec::distributed::{BoundingKey, CannotRunThere, Site};

/// A site that accepts what workers accept, and runs it here.
#[derive(Debug)]
struct AsIfThere(Cluster);

impl Site for AsIfThere {
    fn partitions_by_unit(&self) -> bool {
        true
    }

    fn accepts(
        &self,
        plan: &Arc<dyn datafusion::physical_plan::ExecutionPlan>,
        config: &datafusion::prelude::SessionConfig,
    ) -> Result<(), CannotRunThere> {
        self.0.accepts(plan, config)
    }
}

/// Every plan comes back as it was sent. It has a key where it runs, and the bytes have none of it:
/// in no order of its bytes, and in no digits. Only operators below the privatizing one are in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_the_key_nor_seeds_nor_noise_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let keys = folder.path().join("keys");
    enrol(&keys, &[("nobody", "127.0.0.1:1")]).unwrap();
    let nobody = Cluster::open(&keys).unwrap();
    let mut site = Noted::new(Arc::new(AsIfThere(nobody)));
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    site.look = Some(Box::new(move |plan, context| {
        let codec = PlanCodec::new(context.session_config());
        let bytes = codec.bytes(plan).unwrap();
        for word in KEY {
            let texts = [word.to_le_bytes().to_vec(), word.to_be_bytes().to_vec()];
            let digits = [format!("{word}"), format!("{word:x}"), format!("{word:X}")];
            // Small words may be anything else.
            let texts = texts.into_iter().chain(digits.map(String::into_bytes));
            for text in texts.filter(|_| word > 1 << 32) {
                assert!(!bytes.windows(text.len()).any(|part| part == text), "{text:?}");
            }
        }
        let received = Received::new(Some(BoundingKey::from_words(KEY))).unwrap();
        let back = received.plan(&bytes).unwrap();
        let shown = |plan| displayable(plan).indent(true).to_string();
        assert_eq!(shown(back.as_ref()), shown(plan.as_ref()));
        back.apply(|node| {
            let name = node.name();
            assert!(
                !name.contains("Privatize")
                    && !name.contains("Released")
                    && !name.contains("Ledger"),
                "{name}"
            );
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
        // Without the key, nothing that bounds is made of it.
        let keyless = Received::new(None).unwrap().plan(&bytes);
        assert_eq!(keyless.is_ok(), BoundingKey::of_plan(plan).is_none());
        *count.lock().unwrap() += 1;
    }));
    let engine = engine(folder.path(), Arc::new(site)).await;
    for query in QUERIES {
        let answer = engine.analyst("lab").unwrap().query(query).await;
        answer.unwrap_or_else(|e| panic!("{query}: {e}"));
    }
    assert!(*seen.lock().unwrap() >= QUERIES.len());
}
