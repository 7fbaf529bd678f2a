import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'

/** Lets a server listen on a free port of the loopback interface until the test ends. Returns the port. */
export async function listen(
  t: { teardown(work: () => unknown): void },
  server: Server & { closeAllConnections?(): void }
): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections?.()
  })
  return (server.address() as AddressInfo).port
}

/** Lets a server listen like that. Returns its URL, without a slash at the end. */
export async function urlOf(...given: Parameters<typeof listen>): Promise<string> {
  return `http://127.0.0.1:${await listen(...given)}`
}
