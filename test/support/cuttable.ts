import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A connection to a server that can be cut. */
export interface Cuttable {
  /** The port to connect to instead of the server. */
  origin: string
  /** Breaks every connection without closing it properly. New ones are refused until `mend`. */
  cut(): void
  mend(): void
  close(): Promise<void>
}

/** Forwards bytes to a server on loopback in both directions. */
export async function startCuttable(target: string): Promise<Cuttable> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let isCut = false
  const server = createServer(near => {
    if (isCut) return void near.destroy()
    const far = connect(Number(port), hostname)
    for (const [one, other] of [
      [near, far],
      [far, near]
    ] as const) {
      sockets.add(one)
      one.on('data', bytes => {
        if (!other.write(bytes)) one.pause()
      })
      other.on('drain', () => one.resume())
      one.on('end', () => other.end())
      one.on('error', () => {})
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true
      for (const socket of sockets) socket.resetAndDestroy()
    },
    mend() {
      isCut = false
    },
    close() {
      for (const socket of sockets) socket.destroy()
      return new Promise(resolve => server.close(() => resolve()))
    }
  }
}
