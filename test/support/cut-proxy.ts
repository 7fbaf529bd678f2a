import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A connection to a server that can be cut like a network cable. */
export interface CutProxy {
  url: string
  /** Breaks every connection and refuses new ones until `mend`. */
  cut(): void
  mend(): void
  /** Passes requests on, and breaks each connection when its answer arrives, until `mend`. */
  loseAnswers(): void
  /** Bytes that the server has sent. */
  received(): number
}

export async function startCutProxy(t: { teardown(work: () => unknown): void }, target: string): Promise<CutProxy> {
  const { hostname, port, pathname } = new URL(target)
  const sockets = new Set<Socket>()
  let isCut = false
  let losesAnswers = false
  let received = 0
  const server = createServer(near => {
    if (isCut) {
      near.destroy()
      return
    }
    const far = connect(Number(port), hostname)
    far.on('data', (piece: Buffer) => {
      received += piece.length
      if (losesAnswers) near.destroy()
    })
    for (const [from, to] of [
      [near, far],
      [far, near]
    ] as const) {
      sockets.add(from)
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const cut = (): void => {
    isCut = true
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(() => {
    cut()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname.replace(/\/$/, '')}`,
    cut,
    mend: () => {
      isCut = false
      losesAnswers = false
    },
    loseAnswers: () => {
      losesAnswers = true
    },
    received: () => received
  }
}
