import { openSync } from 'node:fs'
import { Socket } from 'node:net'
import { deserialize } from 'node:v8'
import type { HelperTask } from '../../lib/core/proc/helper-process.js'
import { channelDescriptor, readFrame, sendFrame } from '../../lib/core/proc/helper-wire.js'

/*
 * A helper process that its user has taken over: it gives up its rights, and then does what the job says, which is
 * nothing that svc's own code would do.
 */
export type HostileJob =
  /** Sends these bytes, without a length. */
  | { do: 'bytes'; bytes: Uint8Array; repeat?: number }
  /** Sends a frame with this text. */
  | { do: 'text'; text: string; repeat?: number }
  /** Opens a file, and answers the number of its descriptor, or another one. */
  | { do: 'open'; path: string; flags: number; fd?: number }
  | { do: 'signal'; signal: NodeJS.Signals; pid?: number }
  | { do: 'close' }
  | { do: 'nothing' }

const channel = new Socket({ fd: channelDescriptor, readable: true, writable: true })
channel.on('error', () => {})
channel.once('close', () => process.exit())
const frame = await readFrame(channel, Infinity)
if (frame === null) process.exit()
channel.resume()
const { rights, job } = deserialize(frame) as HelperTask & { job: HostileJob }
process.setgroups?.([rights.identity.gid])
process.setgid?.(rights.identity.gid)
process.setuid?.(rights.identity.uid)
switch (job.do) {
  case 'bytes':
    for (let n = 0; n < (job.repeat ?? 1); n++) channel.write(job.bytes)
    break
  case 'text':
    sendFrame(channel, Buffer.from(job.text.repeat(job.repeat ?? 1)))
    break
  case 'open': {
    const fd = openSync(job.path, job.flags)
    sendFrame(channel, Buffer.from(JSON.stringify({ kind: 'answer', answer: job.fd ?? fd })))
    break
  }
  case 'signal':
    process.kill(job.pid ?? process.pid, job.signal)
    break
  case 'close':
    channel.end()
    setInterval(() => {}, 1000)
    break
  case 'nothing':
    break
}
