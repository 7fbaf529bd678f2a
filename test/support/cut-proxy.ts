import { connect, createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { urlOf } from './on-loopback.js'

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

/**
 * Starts a proxy on loopback until the test ends. It passes on at most `bytesPerSecond` from each client. A cut that
 * `resets` loses what is on its way, too.
 */
export async function startCutProxy(
  t: { teardown(work: () => unknown): void },
  target: string,
  { bytesPerSecond = Infinity, resets = false } = {}
): Promise<CutProxy> {
  const { hostname, port, pathname } = new URL(target)
  const sockets = new Set<Socket>()
  let isCut = false
  let losesAnswers = false
  let received = 0
  const server = createServer(near => {
    if (isCut) return void near.destroy()
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
      const passed = from === near && bytesPerSecond < Infinity ? from.pipe(slowedTo(bytesPerSecond)) : from
      passed.pipe(to)
    }
  })
  const url = await urlOf(t, server)
  const cut = (): void => {
    isCut = true
    for (const socket of sockets) resets ? socket.resetAndDestroy() : socket.destroy()
  }
  t.teardown(cut)
  return {
    url: url + pathname.replace(/\/$/, ''),
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

function slowedTo(bytesPerSecond: number): Transform {
  return new Transform({
    transform: (piece: Buffer, _, done) => void setTimeout(done, (piece.length / bytesPerSecond) * 1000, null, piece)
  })
}
