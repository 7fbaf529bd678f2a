import type { ApiRequest } from './route.js'

/** Returns the JSON body of a request that needs none, or an empty object if there is no body. */
export async function optionalBody(request: ApiRequest): Promise<unknown> {
  const { headers } = request
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  return hasBody ? request.json() : {}
}
