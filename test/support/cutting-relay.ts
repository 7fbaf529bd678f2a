import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** A relay that breaks every connection after a number of bytes from clients or of answers, again and again. */
export async function startCuttingRelay(t: { teardown(work: () => unknown): void }, to: () => string) {
  const sockets = new Set<Socket>()
  const relay = {
    url: '',
    /** Bytes from clients so far, and until the next cut. */
    bytes: 0,
    left: Infinity,
    /** Bytes of answers until the next cut. */
    leftOfAnswers: Infinity,
    async onCut(): Promise<void> {},
    /** Breaks every connection. */
    cut: (): void => cut()
  }
  let cutting: Promise<void> = Promise.resolve()
  const cut = (): void => {
    relay.left = relay.leftOfAnswers = Infinity
    for (const socket of sockets) socket.destroy()
    sockets.clear()
    cutting = relay.onCut()
  }
  /** Passes on what may pass, and cuts after it. */
  function pass(from: Socket, onto: Socket, left: 'left' | 'leftOfAnswers'): void {
    from.on('data', bytes => {
      const passed = bytes.subarray(0, relay[left])
      if (left === 'left') relay.bytes += passed.length
      relay[left] -= passed.length
      if (!onto.write(passed)) {
        from.pause()
        onto.once('drain', () => from.resume())
      }
      if (relay[left] <= 0) cut()
    })
    from.on('end', () => onto.end())
  }
  const listener = createServer(async client => {
    sockets.add(client.on('error', () => {}))
    await cutting
    const { hostname, port } = new URL(to())
    const server = connect(Number(port), hostname).on('error', () => client.destroy())
    sockets.add(server)
    client.on('close', () => server.destroy())
    server.on('close', () => client.destroy())
    pass(server, client, 'leftOfAnswers')
    pass(client, server, 'left')
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
