import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { once } from 'node:events'

export interface BrokenRelay {
  url: string
  /** Where bytes go from now on. */
  to: string
  /** Breaks every connection. */
  cut(): void
}

export interface BrokenRelayOptions {
  /** Number of bytes of each connection that reach the server before it is cut. */
  afterBytes?: number
  /** Nothing reaches the server. Called, or the connection is cut, when the client has sent this many bytes. */
  swallowsUntil?: string
  onSwallowed?: () => void
  /** A response that contains this does not reach the client: its connection is cut. */
  hides?: string
  /** It breaks each time, not only once. */
  isForever?: boolean
}

/**
 * A way to a server that breaks at a certain point. Once it has broken, it passes everything on; a GET, as before an
 * upload, always passes.
 */
export async function startBrokenRelay(
  t: { teardown(work: () => unknown): void },
  to: string,
  options: BrokenRelayOptions = {}
): Promise<BrokenRelay> {
  const { afterBytes = Infinity, swallowsUntil, hides } = options
  const sockets = new Set<Socket>()
  let hasBroken = false
  const cut = (): void => {
    hasBroken = options.isForever !== true
    for (const socket of sockets) socket.destroy()
  }
  const listener = createServer(client => {
    const server = connect(Number(new URL(relay.to).port), '127.0.0.1')
    for (const [socket, other] of [
      [client, server],
      [server, client]
    ] as const) {
      sockets.add(socket)
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          other.destroy()
        })
    }
    let passed = 0
    let sent = ''
    let isForm = false
    let isGet = true
    client.on('data', bytes => {
      // The upload may use the connection of a GET, which has no body.
      isGet &&= bytes.subarray(0, 4).toString('latin1') === 'GET '
      if (hasBroken || isGet) return void server.write(bytes)
      if (swallowsUntil !== undefined) {
        sent = (sent + bytes.toString('latin1')).slice(-64 * 1024)
        isForm ||= sent.includes('multipart/form-data')
        if (sent.includes(isForm ? swallowsUntil : '\r\n\r\n')) (options.onSwallowed ?? cut)()
        return
      }
      const part = bytes.subarray(0, afterBytes - passed)
      passed += part.length
      server.write(part, () => {
        if (passed >= afterBytes) cut()
      })
    })
    server.on('data', bytes => {
      if (!hasBroken && hides !== undefined && bytes.includes(hides)) cut()
      else client.write(bytes)
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => {
    listener.close()
    cut()
  })
  const relay: BrokenRelay = { url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`, to, cut }
  return relay
}
