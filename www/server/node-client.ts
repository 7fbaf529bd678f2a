import { createCall, type Client } from './client.js'

/*
 * A client for the pages of a node, which the hub asks for them. The node answers what its own server would, so that the
 * same calls and pages work with it.
 */

/** What concerns the session of the user with the hub, and is not passed on to the node. */
const ofHub = /^api\/(?:auth|tickets)(?:[/?]|$)/

/** Returns the path on the hub of a path of the node. Pure. */
export function pathOnHub(nodeId: string, path: string): string {
  const node = `api/nodes/${encodeURIComponent(nodeId)}`
  if (!path.startsWith('api/') || ofHub.test(path)) return path
  if (/^api\/terminal\/ws(?:\?|$)/.test(path)) return `${node}/terminal${path.slice('api/terminal/ws'.length)}`
  return `${node}/at/${path.slice('api/'.length)}`
}

export function createNodeClient(client: Client, nodeId: string): Client {
  const at = (path: string): string => pathOnHub(nodeId, path)
  const ask: Client['ask'] = (method, path, options) => client.ask(method, at(path), options)
  return {
    ...client,
    call: createCall(ask),
    address: path => client.address(at(path)),
    ask,
    send: (method, path, options) => client.send(method, at(path), options)
  }
}
