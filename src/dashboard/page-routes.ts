import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { WindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import { type State, states } from '../inventory/types.ts';
import { atLeast, type Identity, maySee, seesEverybody } from './access.ts';
import type { Html } from './html.ts';
import { page } from './layout.ts';
import { instancePage, listPage } from './pages.ts';

interface PageOptions {
  readonly inventory: Pick<Inventory, 'read' | 'tombstone' | 'list' | 'events' | 'now'>;
  readonly base: string;
}
interface ListQuery {
  readonly state?: string;
  readonly owner?: string;
  readonly cursor?: string;
}

const rows = 100;
const refreshSeconds = 3;
const shownEvents = 200;

export function mountPages(app: FastifyInstance, { inventory, base }: PageOptions): void {
  const send = (reply: FastifyReply, who: Identity, title: string, body: Html) =>
    reply
      .type('text/html; charset=utf-8')
      .header('cache-control', 'no-store')
      .send(
        page({ title, base, refresh: refreshSeconds, who: `${who.name} (${who.role})`, signedIn: who.via === 'session' }, body),
      );

  app.get<{ Querystring: ListQuery }>(`${base}/`, async (request, reply) => {
    const who = signedIn(request);
    const owner = ownerFor(who, request.query.owner);
    const state = states.find((name) => name === request.query.state) as State | undefined;
    const [{ items, nextCursor }, now] = await Promise.all([
      inventory.list({
        limit: rows,
        ...(state && { states: [state] }),
        ...(owner !== undefined && { owner }),
        ...(request.query.cursor && { cursor: request.query.cursor }),
      }),
      inventory.now(),
    ]);
    const owners = seesEverybody(who) ? [] : who.owners;
    return send(reply, who, 'Instances', listPage({ base, items, now, nextCursor, state, states, owner, owners }));
  });

  app.get<{ Params: { id: string } }>(`${base}/instances/:id`, async (request, reply) => {
    const who = signedIn(request);
    const { id } = request.params;
    const record = await inventory.read(id);
    const tombstone = record ? undefined : await inventory.tombstone(id);
    // Another owner's instance is not there at all, so that ids cannot be guessed.
    const owner = record?.owner ?? tombstone?.owner;
    if (owner === undefined || !maySee(who, owner))
      throw new WindlassError('instance_not_found', `There is no instance "${id}".`);
    if (!record)
      throw new WindlassError(
        'instance_gone',
        `The instance "${id}" was torn down at ${new Date(tombstone!.goneAt).toISOString()}.`,
      );
    const [events, now] = await Promise.all([lastEvents(inventory, id), inventory.now()]);
    return send(reply, who, id, instancePage({ record, events, now, everything: atLeast(who, 'caller') }));
  });
}

function signedIn(request: FastifyRequest): Identity {
  if (request.identity === undefined) throw new WindlassError('unauthorized');
  return request.identity;
}

/** Whose instances are listed: everybody's, or one of those that the token names. */
function ownerFor(who: Identity, asked: string | undefined): string | undefined {
  if (asked !== undefined && maySee(who, asked)) return asked;
  return seesEverybody(who) ? undefined : who.owners[0];
}

async function lastEvents(inventory: PageOptions['inventory'], id: string): Promise<Awaited<ReturnType<Inventory['events']>>> {
  const all = await inventory.events(id, 0, 10_000);
  return all.slice(-shownEvents);
}
