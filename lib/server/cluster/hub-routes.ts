/*
 * What the hubs of a cluster ask each other. These routes are not part of the API: they accept only requests that are
 * signed with the key of the cluster, and exist for nobody else.
 */
import { notFound, type Refusal } from '../../base/refusal.js'
import type { Auth, Caller } from '../../auth/bearer.js'
import type { Home } from '../../config/home.js'
import { jsonBody } from '../../http/core/route.js'
import type { Method, Reply, Request, Route } from '../../http/core/route.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'

/** Dependencies of the routes. */
export interface HubRouteNeeds {
  store: Pick<ReplicatedStore, 'image'>
  home: Pick<Home, 'deployments'>
}

/** Returns the routes of hubs. */
export function createHubRoutes({ store }: HubRouteNeeds): Array<Route<Auth, Caller>> {
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
