import { createSocket } from 'node:dgram'
import type { AddressInfo } from 'node:net'

export interface NameServer {
  /** `address:port` */
  address: string
  /** The names that were requested. */
  asked: string[]
}

/**
 * A DNS server (RFC 1035 §4) on loopback. It answers with the addresses of `names`, says of every other name that there
 * is none, and is silent where a name has null.
 */
export async function startNameServer(
  t: { teardown(work: () => unknown): void },
  names: Record<string, { v4?: string | null; v6?: number[] | null } | null>,
  { address = '127.0.0.1', port = 0 } = {}
): Promise<NameServer> {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (query, from) => {
    const { name, end } = questionOf(query)
    asked.push(name)
    const isV6 = query.readUInt16BE(end) === 28
    const known = names[name]
    const found = known === null ? null : isV6 ? known?.v6 : known?.v4?.split('.').map(Number)
    if (found === null || (known && !isV6 && known.v4 === null)) return
    const head = Buffer.from(query.subarray(0, 12))
    // A response, recursion available; NXDOMAIN where the name is unknown. One question, and at most one answer.
    head.writeUInt16BE(known === undefined ? 0x8183 : 0x8180, 2)
    head.writeUInt16BE(found === undefined ? 0 : 1, 6)
    head.fill(0, 8)
    const parts = [head, query.subarray(12, end + 4)]
    if (found !== undefined) {
      // The name is that of the question (§4.1.4), class IN, a minute to live.
      parts.push(Buffer.from([0xc0, 12, 0, isV6 ? 28 : 1, 0, 1, 0, 0, 0, 60, 0, found.length, ...found]))
    }
    socket.send(Buffer.concat(parts), from.port, from.address)
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject)
    socket.bind(port, address, resolve)
  })
  t.teardown(() => new Promise<void>(resolve => socket.close(() => resolve())))
  return { address: `${address}:${(socket.address() as AddressInfo).port}`, asked }
}

function questionOf(query: Buffer): { name: string; end: number } {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] as number; length > 0; length = query[at] as number) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 }
}
