import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A relay that breaks every connection after a number of bytes from clients, again and again. */
export async function startCuttingRelay(t: { teardown(work: () => unknown): void }, to: () => string) {
  const sockets = new Set<Socket>()
  const relay = {
    url: '',
    /** Bytes from clients so far, and until the next cut. */
    bytes: 0,
    left: Infinity,
    async onCut(): Promise<void> {}
  }
  let cutting: Promise<void> = Promise.resolve()
  const cut = (): void => {
    relay.left = Infinity
    for (const socket of sockets) socket.destroy()
    cutting = relay.onCut()
  }
  const listener = createServer(async client => {
    sockets.add(client.on('error', () => {}))
    await cutting
    const { hostname, port } = new URL(to())
    const server = connect(Number(port), hostname).on('error', () => client.destroy())
    sockets.add(server)
    client.on('close', () => server.destroy())
    server.on('close', () => client.destroy())
    server.pipe(client)
    client.on('data', bytes => {
      const passed = bytes.subarray(0, relay.left)
      relay.bytes += passed.length
      relay.left -= passed.length
      if (!server.write(passed)) {
        client.pause()
        server.once('drain', () => client.resume())
      }
      if (relay.left <= 0) cut()
    })
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    listener.close()
  })
  relay.url = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
  return relay
}
