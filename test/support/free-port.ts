import { createServer } from 'node:net'

/*
 * Ports for programs that need a number before they listen. They are below those that systems give to `listen(0)` and to
 * outgoing connections (Linux: from 32768), and each process has its own: otherwise another test could take a port before it
 * is used.
 */
const firstPort = 10_000
const portsOfProcess = 20
const blocks = 1_000
const first = firstPort + (process.pid % blocks) * portsOfProcess
let given = 0

/** Returns a port that nobody listens on. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < portsOfProcess; tries++) {
    const port = first + (given++ % portsOfProcess)
    if (await isFree(port)) return port
  }
  throw new Error(`No port from ${first} on is free`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer().once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
