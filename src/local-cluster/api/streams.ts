import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import type { ApiContext } from './context.ts';
import { execFlags, serveExec } from './exec.ts';
import type { FaultPlan } from './fault-plan.ts';
import { forwardPorts, serveForward } from './forward.ts';
import { checkHost, findContainer, findPod } from './pod-target.ts';
import type { Route } from './route.ts';
import { badRequest } from './status.ts';

interface StreamCall {
  readonly context: ApiContext;
  readonly route: Route;
  readonly query: URLSearchParams;
  readonly plan: FaultPlan;
}

type Serve = (socket: WebSocket) => Promise<void>;

export const isStream = ({ subresource }: Route): boolean => ['exec', 'attach', 'portforward'].includes(subresource);

function prepareExec({ context, route, query, plan }: StreamCall): Serve {
  const { pod, ref } = findContainer(context, route.namespace, route.name, query);
  checkHost(pod);
  const flags = execFlags(query);
  const { stdin, tty } = flags;
  const start = () =>
    route.subresource === 'exec'
      ? context.node.exec(ref, query.getAll('command'), { stdin, tty })
      : context.node.attach(ref, { stdin });
  const faults = {
    ...(plan.execDropAfter === undefined ? {} : { dropAfterBytes: plan.execDropAfter }),
    noStatus: plan.flags.has('exec_no_status'),
  };
  return (socket) => serveExec(socket, { ...flags, start }, faults);
}

function prepareForward({ context, route, query, plan }: StreamCall): Serve {
  const pod = findPod(context, route.namespace, route.name);
  checkHost(pod);
  const ports = forwardPorts(query);
  const faults = { refuse: plan.flags.has('forward_refuse'), reset: plan.flags.has('forward_reset') };
  return (socket) => serveForward(socket, context.node, pod.metadata.uid, ports, faults);
}

/** What can be refused before the upgrade, as HTTP answers; returns what is to be done with the socket. */
export function prepareStream(call: StreamCall, request: IncomingMessage): Serve {
  const serve = call.route.subresource === 'portforward' ? prepareForward(call) : prepareExec(call);
  const upgrade = request.headers.upgrade?.toLowerCase();
  if (upgrade === 'websocket') return serve;
  throw badRequest(
    upgrade === undefined
      ? 'Upgrade request required'
      : 'the embedded cluster speaks WebSocket only, no SPDY: use kubectl 1.31 or newer for exec, attach and cp, and a WebSocket client (v4.channel.k8s.io) for port-forward',
  );
}
