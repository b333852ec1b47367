//! Plans of bounded inputs as bytes.
//!
//! In: an operator or a function of a verified plan. Out: bytes, or an error if it is not on the
//! list. DataFusion encodes its own operators; this codec adds the operators and functions of the
//! engine. The bytes do not contain the key of the bounds: it travels separately, and the reader
//! finds it in the session's configuration. Seeds, noise and the privatizing operator have no
//! encoding.
//!
//! ```text
//! 0 {"BoundContributions": {"unit": 0, "keys": [1], …}}      an operator of the engine
//! 1 PhysicalPlanNode { Filter … }                            an operator of DataFusion that was carried, see `carried`
//! 4 {"PublicScan": {"files": […]}} PhysicalPlanNode { … }    files of a public table, and the scan of them
//! 3 1                                                        a check that rows came once, see `once`
//! 2 PhysicalPlanNode { Projection … }                        a plan that each task runs as a whole, see `whole`
//! ```

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::common::{DataFusionError, Result, internal_err, not_impl_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use datafusion::prelude::SessionConfig;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use hushql_engine::exec::distributed::{Aggregate, Function, InputOperator, Operator};

use crate::beside::Beside;
use crate::carried::Carried;
use crate::once::{Once, Step};
use crate::whole::{Opened, Whole};

/// The first byte of an operator of the engine.
const OWN: u8 = 0;
/// The first byte of a carried operator.
const CARRIED: u8 = 1;
/// The first byte of a plan that each task runs as a whole.
const WHOLE: u8 = 2;
/// The first byte of a mark or a check.
const ONCE: u8 = 3;
/// The first byte of a public table's files. After it come the length of their description, the
/// description, and the scan.
const OPENED: u8 = 4;

/// The functions of DataFusion, which every process has.
static SCALAR: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_scalar_functions();
    let named = all.into_iter().flat_map(|function| {
        let names = std::iter::once(function.name().to_owned());
        let names: Vec<_> = names.chain(function.aliases().iter().cloned()).collect();
        names.into_iter().map(move |name| (name, Arc::clone(&function)))
    });
    named.collect()
});
static AGGREGATE: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_aggregate_functions();
    all.into_iter().map(|function| (function.name().to_owned(), function)).collect()
});
static WINDOW: LazyLock<HashMap<String, Arc<WindowUDF>>> = LazyLock::new(|| {
    let all = SessionStateDefaults::default_window_functions();
    all.into_iter().map(|function| (function.name().to_owned(), function)).collect()
});

/// The codec of one session.
///
/// # Guarantee
/// A plan that was encoded and decoded yields the same rows as before, for the same key. It encodes
/// only operators and functions that are on the list.
#[derive(Debug, Clone)]
pub struct PlanCodec {
    config: SessionConfig,
}

impl PlanCodec {
    /// The codec for plans of a session with this configuration, which has the session's open
    /// files.
    pub fn new(config: &SessionConfig) -> Self {
        Self { config: config.clone() }
    }

    /// A plan as bytes.
    ///
    /// # Errors
    /// The reason why it cannot be encoded.
    pub fn bytes(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<u8>> {
        let bytes = physical_plan_to_bytes_with_extension_codec(Arc::clone(plan), self)?;
        Ok(bytes.to_vec())
    }

    /// The plan in these bytes, in a process that runs it.
    ///
    /// # Errors
    /// DataFusion's error if the bytes hold no plan; also if a file cannot be opened, or is a
    /// different file.
    pub fn plan(&self, bytes: &[u8], context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
        physical_plan_from_bytes_with_extension_codec(bytes, context, self)
    }
}

/// Whether all functions of an expression are DataFusion's own, which are encoded by name.
pub(crate) fn goes_by_name(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let is_own = |function: &ScalarFunctionExpr| {
        let own = SCALAR.get(function.fun().name());
        Function::of(function.fun()).is_none() && own.is_some_and(|own| **own == *function.fun())
    };
    expr.downcast_ref::<ScalarFunctionExpr>().is_none_or(is_own)
        && expr.children().into_iter().all(goes_by_name)
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn with_children(
    plan: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(children, options)
}

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        ctx: &TaskContext,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match buf.split_first() {
            Some((&OWN, text)) => {
                let operator: Operator = serde_json::from_slice(text).map_err(external)?;
                let key = Beside::of(ctx.session_config()).key()?;
                operator.made(inputs, key.as_ref(), ctx)
            }
            Some((&CARRIED, bytes)) => {
                let alone = self.plan(bytes, ctx)?;
                with_children(&alone, inputs.to_vec())
            }
            Some((&WHOLE, bytes)) => self.plan(bytes, ctx),
            Some((&OPENED, rest)) => {
                let Some((length, rest)) = rest.split_first_chunk::<8>() else {
                    return internal_err!("this describes no files");
                };
                let length = usize::try_from(u64::from_le_bytes(*length)).map_err(external)?;
                let Some((text, scan)) = rest.split_at_checked(length) else {
                    return internal_err!("this describes no files");
                };
                let operator: Operator = serde_json::from_slice(text).map_err(external)?;
                operator.made(&[self.plan(scan, ctx)?], None, ctx)
            }
            Some((&ONCE, &[step])) => match (Step::of_byte(step), inputs) {
                (Some(step), [input]) => Ok(Arc::new(Once::new(step, Arc::clone(input))?)),
                _ => internal_err!("this describes no mark"),
            },
            _ => internal_err!("this describes no operator"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        _proto_converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(carried) = node.downcast_ref::<Carried>() {
            buf.push(CARRIED);
            buf.extend(self.bytes(&carried.alone()?)?);
            return Ok(());
        }
        if let Some(once) = node.downcast_ref::<Once>() {
            let Some(step) = once.step().byte() else {
                return internal_err!("the last check is the driver's");
            };
            buf.extend([ONCE, step]);
            return Ok(());
        }
        if let Some(whole) = node.downcast_ref::<Whole>() {
            buf.push(WHOLE);
            buf.extend(self.bytes(whole.inner())?);
            return Ok(());
        }
        if let Some(opened) = node.downcast_ref::<Opened>() {
            let InputOperator::Own(files) =
                InputOperator::of(opened.scan(), &self.config).map_err(external)?
            else {
                return internal_err!("files are described");
            };
            let text = serde_json::to_vec(&files).map_err(external)?;
            buf.push(OPENED);
            buf.extend(u64::try_from(text.len()).map_err(external)?.to_le_bytes());
            buf.extend(text);
            buf.extend(self.bytes(opened.scan())?);
            return Ok(());
        }
        match InputOperator::of(&node, &self.config).map_err(external)? {
            InputOperator::Own(operator) if operator.is_complete() => {
                buf.push(OWN);
                serde_json::to_writer(buf, &operator).map_err(external)
            }
            InputOperator::Own(_) => internal_err!("a plan is sent after the charge"),
            InputOperator::DataFusions => {
                internal_err!("DataFusion has no description of its own {}", node.name())
            }
        }
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> Result<()> {
        if let Some(function) = Function::of(node) {
            return serde_json::to_writer(buf, &function).map_err(external);
        }
        match SCALAR.get(node.name()) {
            Some(own) if own.as_ref() == node => Ok(()),
            Some(_) | None => not_impl_err!("the function {} cannot be sent", node.name()),
        }
    }

    fn try_decode_udf(&self, _name: &str, buf: &[u8]) -> Result<Arc<ScalarUDF>> {
        let function: Function = serde_json::from_slice(buf).map_err(external)?;
        function.made(|name| SCALAR.get(name).cloned())
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> Result<()> {
        if let Some(function) = Aggregate::of(node) {
            return serde_json::to_writer(buf, &function).map_err(external);
        }
        match AGGREGATE.get(node.name()) {
            Some(own) if own.as_ref() == node => Ok(()),
            Some(_) | None => not_impl_err!("the function {} cannot be sent", node.name()),
        }
    }

    fn try_decode_udaf(&self, _name: &str, buf: &[u8]) -> Result<Arc<AggregateUDF>> {
        let function: Aggregate = serde_json::from_slice(buf).map_err(external)?;
        function.made()
    }

    fn try_encode_udwf(&self, node: &WindowUDF, _buf: &mut Vec<u8>) -> Result<()> {
        match WINDOW.get(node.name()) {
            Some(own) if own.as_ref() == node => Ok(()),
            Some(_) | None => not_impl_err!("the function {} cannot be sent", node.name()),
        }
    }
}
