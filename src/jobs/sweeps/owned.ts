import type { V1ObjectMeta } from '@kubernetes/client-node';
import type { CreateRecord } from '../../inventory/types.ts';
import { keys } from '../../kubernetes/ownership.ts';
import type { Kind } from '../../kubernetes/port.ts';
import { ahead } from './ahead.ts';
import type { Pass } from './pass.ts';

export type OwnedKind = CreateRecord['kind'];
/** All kinds that belong to one instance; what instances share is the business of `config-maps`. */
export const ownedKinds: readonly OwnedKind[] = ['pods', 'persistentvolumeclaims'];

export interface Page {
  readonly items: readonly V1ObjectMeta[];
  readonly serverTime: number;
}

/** Metadata of this installation's objects, page by page; counted as looked at. Nobody else's is ever listed (I24). */
export async function* ownedPages(pass: Pass, kind: Kind): AsyncGenerator<Page> {
  const pages = pass.cluster.listMetadata(kind, `${keys.installation}=${pass.config.installation}`, { signal: pass.signal });
  for await (const page of ahead(pages)) {
    pass.looked(page.items.length);
    yield page;
  }
}

/** The instance that an object's name stands for; undefined = no name of ours. */
export function hashOf(name: string, kind: OwnedKind): string | undefined {
  const pattern = kind === 'pods' ? /^windlass-([0-9a-f]{20})$/ : /^windlass-([0-9a-f]{20})-workspace$/;
  return pattern.exec(name)?.[1];
}
