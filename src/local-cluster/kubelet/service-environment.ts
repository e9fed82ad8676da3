import type { KubeObject, Store } from '../types.ts';

interface ServicePort {
  name?: string;
  port: number;
  protocol?: string;
}

/** The variables of service links: every Service of the namespace that has an address, and the API's own. */
export function serviceEnvironment(store: Store, namespace: string | undefined): Record<string, string> {
  const api = store.get('services', 'default', 'kubernetes');
  const own = namespace === undefined ? [] : store.list('services', namespace);
  const services = api === undefined || namespace === 'default' ? own : [api, ...own];
  return Object.assign({}, ...services.map(linkVariables));
}

function linkVariables(service: KubeObject): Record<string, string> {
  const ip: string | undefined = service.spec?.clusterIP;
  const ports: ServicePort[] = service.spec?.ports ?? [];
  const first = ports[0];
  if (ip === undefined || ip === '' || ip === 'None' || first === undefined) return {};
  const name = service.metadata.name.toUpperCase().replaceAll('-', '_');
  const variables: Record<string, string> = {
    [`${name}_SERVICE_HOST`]: ip,
    [`${name}_SERVICE_PORT`]: String(first.port),
    [`${name}_PORT`]: address(ip, first),
  };
  for (const port of ports) {
    const protocol = port.protocol ?? 'TCP';
    const prefix = `${name}_PORT_${port.port}_${protocol}`;
    variables[prefix] = address(ip, port);
    variables[`${prefix}_PROTO`] = protocol.toLowerCase();
    variables[`${prefix}_PORT`] = String(port.port);
    variables[`${prefix}_ADDR`] = ip;
    if (port.name) variables[`${name}_SERVICE_PORT_${port.name.toUpperCase().replaceAll('-', '_')}`] = String(port.port);
  }
  return variables;
}

function address(ip: string, { protocol = 'TCP', port }: ServicePort): string {
  return `${protocol.toLowerCase()}://${ip}:${port}`;
}
