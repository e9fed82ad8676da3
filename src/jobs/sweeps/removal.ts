import type { V1ObjectMeta } from '@kubernetes/client-node';
import { asWindlassError } from '../../errors.ts';
import type { Lease } from '../../inventory/port.ts';
import type { KindMap } from '../../kubernetes/port.ts';
import { type Pass, serverNow } from './pass.ts';

/** An object that changes under each of this many reads is left to the next pass. */
const readTries = 5;

export interface Judgement {
  readonly name: string;
  /** Only this one of that name; any when absent. */
  readonly uid?: string;
  /** Of what was just read, by the cluster's time now. */
  mayGo(meta: V1ObjectMeta, now: number): Promise<boolean>;
}

/**
 * Deletes exactly what was judged, by UID and resourceVersion (I12, I21). A conflict says that it changed since: a node
 * wrote its status, or somebody adopted it. Only reading and judging it again tells the two apart.
 */
export async function removeAsJudged(
  pass: Pass,
  lease: Lease,
  kind: keyof KindMap,
  { name, uid, mayGo }: Judgement,
): Promise<'deleted' | 'gone' | 'changed'> {
  for (let tries = 1; ; tries += 1) {
    const meta = (await pass.cluster.read(kind, name, { signal: pass.signal }))?.metadata;
    if (meta?.uid === undefined || (uid !== undefined && meta.uid !== uid)) return 'gone';
    if (!(await mayGo(meta, serverNow(pass.cluster)))) return 'changed';
    lease.assertHeld();
    try {
      const resourceVersion = meta.resourceVersion ?? '';
      await pass.cluster.remove(kind, name, { uid: meta.uid, resourceVersion, signal: pass.signal });
      return 'deleted';
    } catch (error) {
      if (tries === readTries || asWindlassError(error).code !== 'conflict') throw error;
    }
  }
}
