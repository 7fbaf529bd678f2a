/*
 * Frames of a client parsed in process: ours and the receiver of `ws`, the same bytes in chunks of 64 KiB, as a socket
 * gives them. Small messages show the cost of a frame, large ones that of the mask and of UTF-8.
 */
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { Receiver as OurReceiver } from '../../lib/http/websocket/receiver.js'
import { compare, machine, sized } from '../support/bench.js'
import { binary, frame, text } from '../support/frames.js'
import { installedFolder } from '../support/rivals.js'

const chunkBytes = 64 * 1024
const totalBytes = sized(64 * 1024 * 1024, 4 * 1024 * 1024)
const maxMessageBytes = 16 * 1024 * 1024

interface Workload {
  name: string
  count: number
  chunks: Buffer[]
}

function workload(name: string, opcode: number, payload: Buffer): Workload {
  const one = frame({ opcode, payload })
  const count = Math.floor(totalBytes / one.length)
  const all = Buffer.concat(Array.from({ length: count }, () => one))
  const chunks = Array.from({ length: Math.ceil(all.length / chunkBytes) }, (_, i) =>
    all.subarray(i * chunkBytes, (i + 1) * chunkBytes)
  )
  return { name, count, chunks }
}

/** Receivers unmask in place, so each run gets copies, made before the clock starts. */
const copies = ({ chunks }: Workload): Buffer[] => chunks.map(chunk => Buffer.from(chunk))

const rate = (startedAt: bigint): number =>
  totalBytes / 1024 / 1024 / (Number(process.hrtime.bigint() - startedAt) / 1e9)

function ours(load: Workload): number {
  let messages = 0
  const receiver = new OurReceiver(
    { message: () => void messages++, ping() {}, pong() {}, close() {} },
    { maxMessageBytes, maxFragments: 1 }
  )
  const chunks = copies(load)
  const startedAt = process.hrtime.bigint()
  for (const chunk of chunks) receiver.push(chunk)
  if (messages !== load.count) throw new Error(`${messages} messages came out of ${load.count}`)
  return rate(startedAt)
}

type WsReceiver = new (options: object) => Writable

async function ws(load: Workload, Receiver: WsReceiver): Promise<number> {
  let messages = 0
  const receiver = new Receiver({ isServer: true, maxPayload: maxMessageBytes, allowSynchronousEvents: true })
  // The library leaves decoding to its user, and every user needs text here.
  receiver.on('message', (bytes: Buffer, isBinary: boolean) => {
    messages++
    if (!isBinary) String(bytes)
  })
  const chunks = copies(load)
  const startedAt = process.hrtime.bigint()
  for (const chunk of chunks) if (!receiver.write(chunk)) await once(receiver, 'drain')
  if (messages !== load.count) throw new Error(`${messages} messages came out of ${load.count}`)
  return rate(startedAt)
}

const folder = await installedFolder({ ws: '8.18.3' })
// The module that `import` finds hides its parts.
const Receiver =
  folder === null ? null : (createRequire(join(folder, 'package.json'))('ws') as { Receiver: WsReceiver }).Receiver
console.log(machine())
for (const one of [
  workload('keystrokes: text of 30 bytes', text, Buffer.from('{"type":"input","data":"x"}\n  ')),
  workload('pastes: text of 16 KiB', text, Buffer.alloc(16 * 1024, 'ordinary text, € and é, ')),
  workload('binary of 1 MiB', binary, Buffer.alloc(1024 * 1024, 0xa5))
]) {
  await compare({
    name: `websocket receiver, ${one.name}`,
    unit: 'MB/s',
    contestants: { ours: () => ours(one), ws: Receiver && (() => ws(one, Receiver)) },
    goals: [{ beside: 'ws', atLeast: 1 }]
  })
}
