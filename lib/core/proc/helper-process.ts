/*
 * The inside of a helper process (helper.ts starts it). It begins with the rights of svc, loads its code, gives up the
 * rights permanently, and only then receives its job.
 *
 * After the change of user, the kernel keeps the process undumpable: the user that it runs as cannot trace it, read its
 * memory or open its descriptors (ptrace(2), proc(5)). `findIdentity` refuses a kernel that is set otherwise. That user
 * can still signal the process. So SIGUSR1, with which Node opens its debugger to everybody on the machine, has another
 * handler before the rights change; no other signal does more than stop or end a process of Node. What the process
 * answers is believed no further than if the user had written it (helper-wire.ts).
 */
import { Socket } from 'node:net'
import { deserialize } from 'node:v8'
import { channelDescriptor, packAnswer, packFailure, readFrame, sendFrame } from './helper-wire.js'
import type { Rights } from './identity.js'

/** The frame from svc. */
export interface HelperTask {
  rights: Rights
  job: unknown
}

/**
 * Does the one job of this process with the rights that come with the job, answers, and waits until svc closes the
 * connection.
 */
export function serveHelper<Job>(work: (job: Job) => Promise<unknown>): void {
  // A listener takes the signal from Node's debugger. With the user's rights it must already be there.
  process.on('SIGUSR1', () => {})
  const channel = new Socket({ fd: channelDescriptor, readable: true, writable: true })
  channel.on('error', () => {})
  // svc has closed the connection, or has ended.
  channel.once('close', () => process.exit())
  void serve(channel, work as (job: unknown) => Promise<unknown>)
}

async function serve(channel: Socket, work: (job: unknown) => Promise<unknown>): Promise<void> {
  const frame = await readFrame(channel, Infinity)
  if (frame === null) return
  // Reading on finds the end of svc.
  channel.resume()
  sendFrame(channel, await answer(frame, work))
}

async function answer(frame: Buffer, work: (job: unknown) => Promise<unknown>): Promise<Buffer> {
  try {
    const { rights, job } = deserialize(frame) as HelperTask
    giveUpRights(rights)
    return packAnswer(await work(job))
  } catch (error) {
    return packFailure(error)
  }
}

/** Switches to the rights of the identity, permanently. Throws if any of the old rights remain. */
function giveUpRights({ identity: { name, uid, gid }, umask }: Rights): void {
  // Missing from the types of Node.
  ;(process as NodeJS.Process & { initgroups?(user: string, group: number): void }).initgroups?.(name, gid)
  process.setgid?.(gid)
  process.setuid?.(uid)
  if (umask !== null) process.umask(umask)
  const ids = [process.getuid?.(), process.geteuid?.(), process.getgid?.(), process.getegid?.()]
  if (ids.join() !== [uid, uid, gid, gid].join() || uid === 0)
    throw new Error('The rights of svc could not be given up')
}
