import { Counter, Gauge, Registry } from 'prom-client';
import type { Shelf } from '../inventory/shelf.ts';
import { builtSweeps } from '../jobs/catalog.ts';
import type { SweepReport } from '../jobs/context.ts';
import { readSweepHealth } from '../jobs/sweeps/health.ts';
import type { Queues } from '../producers/queue.ts';

/** What a worker tells Prometheus (contract §7). Labels come from small enums only. */
export interface Metrics {
  readonly contentType: string;
  text(): Promise<string>;
  /** Counts what a pass of this process found. */
  sweepDone(report: SweepReport): void;
}

export function createMetrics(parts: { readonly queues: Queues; readonly shelf: Shelf }): Metrics {
  const registry = new Registry();
  registerQueueGauges(registry, parts.queues);
  registerSweepGauges(registry, parts.shelf);
  const objects = new Counter({
    name: 'windlass_sweep_objects_total',
    help: 'Objects and records that sweeps of this process looked at, by what was decided on them',
    labelNames: ['kind', 'verdict'],
    registers: [registry],
  });
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    sweepDone({ sweep, verdicts }) {
      for (const [verdict, count] of Object.entries(verdicts)) objects.inc({ kind: sweep, verdict }, count);
    },
  };
}

function registerSweepGauges(registry: Registry, shelf: Shelf): void {
  new Gauge({
    name: 'windlass_breaker_open',
    help: '1 = the last pass would have removed suspiciously much and stopped (the same on every replica: use max)',
    labelNames: ['kind'],
    registers: [registry],
    async collect() {
      for (const kind of builtSweeps) this.set({ kind }, (await readSweepHealth(shelf, kind)).breakerOpen ? 1 : 0);
    },
  });
  new Gauge({
    name: 'windlass_sweep_last_success_timestamp_seconds',
    help: 'When a pass last went over every cluster to its end; 0 = never (the same on every replica: use max)',
    labelNames: ['kind'],
    registers: [registry],
    async collect() {
      for (const kind of builtSweeps) this.set({ kind }, (await readSweepHealth(shelf, kind)).succeededAt / 1000);
    },
  });
}

function registerQueueGauges(registry: Registry, queues: Queues): void {
  new Gauge({
    name: 'windlass_jobs',
    help: 'Jobs by queue and state (the same on every replica: use max)',
    labelNames: ['queue', 'state'],
    registers: [registry],
    async collect() {
      for (const [queue, handle] of Object.entries(queues)) {
        const counts = await handle.getJobCounts('active', 'waiting', 'prioritized', 'delayed', 'completed', 'failed');
        for (const [state, count] of Object.entries(counts)) this.set({ queue, state }, count);
      }
    },
  });
  new Gauge({
    name: 'windlass_scaling_jobs',
    help: 'Waiting and active jobs by queue: what to scale workers on',
    labelNames: ['queue'],
    registers: [registry],
    async collect() {
      for (const [queue, handle] of Object.entries(queues)) {
        const counts = await handle.getJobCounts('active', 'waiting', 'prioritized');
        this.set({ queue }, (counts.active ?? 0) + (counts.waiting ?? 0) + (counts.prioritized ?? 0));
      }
    },
  });
}
