/** The way out as one import: a worker loads it, a caller never does. */
export { startBackpressure } from './backpressure.ts';
export { startConsumer } from './consumer.ts';
export { startHealthServer } from './health.ts';
export { startLossWatch } from './losses.ts';
export { createMetrics } from './metrics.ts';
export { startUpkeep } from './upkeep.ts';
export { startWakeups } from './wakeups.ts';
