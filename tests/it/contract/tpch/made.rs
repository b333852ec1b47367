//! The eight tables of TPC-H, generated: the same rows every time.

use std::fmt::Debug;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tpchgen::distribution::Distributions;
use tpchgen::generators as rows;
use tpchgen::text::TextPool;
use tpchgen_arrow as arrows;

/// A table: its name, its columns, its rows.
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Box<dyn Iterator<Item = RecordBatch>>,
}

/// The tables at a scale factor. Comments are cut out of so many bytes of text; the benchmark's own
/// 300 MB take minutes to make without optimization.
pub(crate) fn tables(scale: f64, text: i32) -> Vec<Made> {
    let lists = Distributions::static_default();
    let text: &'static TextPool = Box::leak(Box::new(TextPool::new(text, lists)));
    fn made<E: Debug + 'static>(
        name: &'static str,
        schema: SchemaRef,
        batches: impl Iterator<Item = Result<RecordBatch, E>> + 'static,
    ) -> Made {
        Made { name, schema, batches: Box::new(batches.map(Result::unwrap)) }
    }
    macro_rules! made {
        ($name:literal, $arrow:ident, $rows:expr) => {
            made($name, arrows::$arrow::schema_ref(), arrows::$arrow::new($rows))
        };
        ($name:literal, $arrow:ident, $rows:ident, $($size:expr),*) => {
            made!(
                $name,
                $arrow,
                rows::$rows::new_with_distributions_and_text_pool($($size,)* lists, text)
            )
        };
    }
    vec![
        made!("region", RegionArrow, RegionGenerator,),
        made!("nation", NationArrow, NationGenerator,),
        made!("part", PartArrow, PartGenerator, scale, 1, 1),
        made!("supplier", SupplierArrow, SupplierGenerator, scale, 1, 1),
        made!(
            "partsupp",
            PartSuppArrow,
            rows::PartSuppGenerator::new_with_text_pool(scale, 1, 1, text)
        ),
        made!("customer", CustomerArrow, CustomerGenerator, scale, 1, 1),
        made!("orders", OrderArrow, OrderGenerator, scale, 1, 1),
        made!("lineitem", LineItemArrow, LineItemGenerator, scale, 1, 1),
    ]
}
