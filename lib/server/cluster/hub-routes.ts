/*
 * What the hubs of a cluster ask each other. These routes are not part of the API: they accept only requests that a hub of
 * the cluster has signed, and exist for nobody else.
 *
 *   GET  /api/hub/image               the database as a SQLite file
 *   GET  /api/hub/archives/:deployId  an archive, with Range
 *   POST /api/hub/archives            asks this hub to fetch an archive; answers when it is on the disk
 *   GET  /api/hub/outputs/:deployId   the output of a finished deployment
 *   POST /api/hub/key                 the key that the cluster gets; only the leader sends it
 *   POST /api/hub/enrollments         a one-time token for the node of the hub that asks; the leader answers
 *   POST /api/hub/unfinished/:deployId  asks this hub to give up an unfinished target; only the leader sends it
 */
import { join } from 'node:path'
import type { Auth, Caller } from '../../auth/bearer.js'
import { checked, integer, line, readFields } from '../../base/fields.js'
import { notFound, type Refusal } from '../../base/errors.js'
import { parseClusterKey } from '../../config/cluster-file.js'
import type { Home } from '../../config/home.js'
import type { UnfinishedTarget } from '../../model/health.js'
import { json, jsonBody, type Method, type Reply, type Request, type Route } from '../../http/core/route.js'
import { fileReply } from '../../http/static/file.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'
import { type Archives, isDeployId } from './archives.js'

/** Dependencies of the routes. */
export interface HubRouteNeeds {
  store: Pick<ReplicatedStore, 'image' | 'expectKey' | 'role'>
  home: Pick<Home, 'deployments'>
  archives: Pick<Archives, 'fetch'>
  /** Returns a one-time token for the node of a hub. Refuses `not_leader`. */
  enroll(hub: string): Promise<string>
  /** As in `Unfinished`. */
  giveUpHere(deployId: string): UnfinishedTarget
}

const archiveFields = {
  deployId: line({ min: 1, max: 100 }),
  sha256: line({ min: 64, max: 64 }),
  bytes: integer(1, Number.MAX_SAFE_INTEGER)
}
const keyFields = {
  key: checked(line({ min: 64, max: 64 }), text => (parseClusterKey(text) === null ? 'is not a key' : null))
}
const zipType = { 'content-type': 'application/zip' }
const outputType = { 'content-type': 'text/plain; charset=utf-8' }

/** Returns the routes of hubs. */
export function createHubRoutes({
  store,
  home,
  archives,
  enroll,
  giveUpHere
}: HubRouteNeeds): Array<Route<Auth, Caller>> {
  const fileOf = (request: Request, ending: string): string => {
    const { deployId = '' } = request.params
    if (!isDeployId(deployId)) throw unknown(request)
    return join(home.deployments, `${deployId}${ending}`)
  }
  const requireLeader = (request: Request): void => {
    if (request.client.hub?.name !== store.role().leader?.name) throw unknown(request)
  }
  return [
    ofHub('GET', '/api/hub/image', async () => {
      const image = await store.image()
      return {
        kind: 'stream',
        status: 200,
        headers: { 'content-type': 'application/vnd.sqlite3', 'content-length': String(image.bytes) },
        async run(sink) {
          try {
            for (const piece of image.pieces) await sink.write(piece)
          } finally {
            image.release()
          }
        }
      }
    }),
    ofHub('GET', '/api/hub/archives/:deployId', async request =>
      fileReply({ file: fileOf(request, '.zip'), headers: zipType })
    ),
    ofHub('GET', '/api/hub/outputs/:deployId', async request =>
      fileReply({ file: fileOf(request, '.log'), headers: outputType })
    ),
    ofHub('POST', '/api/hub/archives', async request => {
      const facts = readFields(await request.json(), archiveFields)
      if (!isDeployId(facts.deployId)) throw unknown(request)
      await archives.fetch(facts, request.client.hub?.name ?? '', request.signal)
      return json({ success: true })
    }),
    ofHub('POST', '/api/hub/key', async request => {
      requireLeader(request)
      const { key } = readFields(await request.json(), keyFields)
      await store.expectKey(parseClusterKey(key) as Buffer)
      return json({ success: true })
    }),
    ofHub('POST', '/api/hub/enrollments', async ({ client }) => {
      return json({ success: true, token: await enroll(client.hub?.name ?? '') })
    }),
    ofHub('POST', '/api/hub/unfinished/:deployId', async request => {
      requireLeader(request)
      return json(giveUpHere(request.params['deployId'] ?? ''))
    })
  ]
}

/** Returns a route that only hubs of the cluster can call. */
function ofHub(
  method: Method,
  path: string,
  handle: (request: Request<Caller>) => Promise<Reply>
): Route<Auth, Caller> {
  return {
    method,
    path,
    auth: 'public',
    body: jsonBody,
    answeredBy: 'receiver',
    async handle(request) {
      if (!request.client.hub?.isOwn) throw unknown(request)
      return handle(request)
    }
  }
}

function unknown({ path }: Request): Refusal {
  return notFound('Path', path)
}
