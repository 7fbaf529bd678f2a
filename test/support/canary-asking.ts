import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiRoute } from '../../lib/api/route.js'
import type { AskedRecords } from './canary-fleet.js'
import { formOf, type Client, type SendOptions } from './client.js'
import { zipOf } from './zip.js'

/** Bodies with which a route that changes something answers with what is stored. Others get an empty one. */
const bodies: Record<string, object> = {
  'PUT /api/projects/:id/pin': { pinned: true },
  'PUT /api/projects/:id/lock': { reason: 'again' },
  'PUT /api/projects/:id/maintenance': { on: false },
  'PUT /api/lock': { reason: 'again' },
  'POST /api/tickets': { purpose: 'download' },
  'PATCH /api/deployments/:id/status': { status: 'success' },
  'PUT /api/nodes/:node/drain': { drained: false }
}

/** How long is waited for an answer to a request that changes something, and for its end. */
const patienceMs = 500

/** What follows something: an answer without an end. */
const followed = /stream$|\/changes$|events$/

/** Returns the route in the order in which routes that change something are asked: nothing is locked or removed before the end. */
export function rankOf({ method, path }: ApiRoute): number {
  return method === 'DELETE' ? 3 : /lock$/.test(path) ? 2 : /(rollback|undo|repair|upload)$/.test(path) ? 1 : 0
}

/** An answer: its head and the body, or what of it came in time. */
export interface AskedAnswer {
  status: number
  headers: object
  bytes: Buffer
}

/** Asks for a route with these records; null: the answer would come after something that the test does not do. */
export async function ask(route: ApiRoute, record: AskedRecords, from: Client): Promise<AskedAnswer | null> {
  const path = pathOf(route.path, record)
  if (route.method === 'GET') {
    const query = `?path=a.txt&q=cnry&projectId=${record.id}&from=0`
    // The first part of what follows something has what is stored.
    return read(await from.open('GET', path + query), followed.test(path))
  }
  const late = sleep(patienceMs).then(() => null)
  const opening = from.open(route.method, path, await bodyOf(route, record))
  const answer = await Promise.race([opening, late])
  void opening.then(async given => late.then(() => given.destroy())).catch(() => undefined)
  return answer && read(answer, false).catch(() => null)
}

async function bodyOf({ method, path }: ApiRoute, { id }: AskedRecords): Promise<SendOptions> {
  if (path === '/api/deploy/upload') {
    const file = { filename: 'a.zip', bytes: await zipOf({ 'a.txt': 'again' }) }
    const { contentType, body } = formOf([
      ['projectId', id],
      ['file', file]
    ])
    return { headers: { 'content-type': contentType }, body }
  }
  return {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(bodies[`${method} ${path}`] ?? {})
  }
}

async function read(answer: Awaited<ReturnType<Client['open']>>, isFollowed: boolean): Promise<AskedAnswer> {
  const chunks: Buffer[] = []
  for await (const chunk of answer) {
    chunks.push(chunk as Buffer)
    if (isFollowed) break
  }
  answer.destroy()
  return { status: answer.statusCode as number, headers: answer.headers, bytes: Buffer.concat(chunks) }
}

/** Returns the path of a route for these records. */
export function pathOf(
  path: string,
  { id, deployId, source, rolloutId, node, archiveSha256, ids }: AskedRecords
): string {
  const known: Array<[RegExp, string | undefined]> = [
    [/(?<=^\/api\/projects\/):id/, id],
    [/:deployId|(?<=^\/api\/deployments\/):id/, deployId],
    [/:id/, ids?.[path.split('/')[2] as string]],
    [/:sourceId/, source],
    [/:rolloutId/, rolloutId],
    [/:node/, node],
    [/:sha256/, archiveSha256],
    [/[:*]\w+/g, 'none']
  ]
  return known.reduce((at, [what, value]) => at.replace(what, value ?? 'none'), path)
}
