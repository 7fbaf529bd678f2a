import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './free-port.js'

/** A relay to one port that can be cut, so that a hub loses etcd. */
export async function relayTo(t: { teardown(work: () => unknown): void }, port: number) {
  const sockets = new Set<Socket>()
  let isCut = false
  const server: Server = createServer(near => {
    if (isCut) return void near.destroy()
    const far = connect(port, '127.0.0.1')
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          near.destroy()
          far.destroy()
        })
    }
    near.pipe(far).pipe(near)
  })
  const own = await freePort()
  server.listen(own, '127.0.0.1')
  t.teardown(() => void server.close())
  return {
    port: own,
    cut(cut: boolean) {
      isCut = cut
      if (cut) for (const socket of sockets) socket.destroy()
    }
  }
}
