/*
 * The inside of a helper process (helper.ts starts it). It begins with the rights of svc, loads its code, gives up the
 * rights permanently, and only then receives its job.
 *
 * After the change of user, the kernel keeps the process undumpable: the user that it runs as cannot trace it, read its
 * memory or open its descriptors (ptrace(2), proc(5)). That user can kill or stop it, which harms only the user's own
 * projects.
 */
import type { Rights } from './identity.js'
import { packError, type PackedError } from '../base/packed-error.js'

/** The first message from svc. */
export interface HelperTask {
  rights: Rights
  job: unknown
}

/** The single answer of the process. */
export type HelperAnswer = { kind: 'answer'; answer: unknown } | { kind: 'failed'; error: PackedError }

/**
 * Does the one job of this process with the rights that come with the job, answers, and waits until svc disconnects.
 */
export function serveHelper<Job>(work: (job: Job) => Promise<unknown>): void {
  process.once('message', async (task: HelperTask) => {
    // The callback prevents an exception if the message cannot be sent because svc has ended.
    process.send?.(await answer(task, work as (job: unknown) => Promise<unknown>), undefined, {}, () => {})
  })
  // svc has disconnected, or has ended.
  process.once('disconnect', () => process.exit())
}

async function answer({ rights, job }: HelperTask, work: (job: unknown) => Promise<unknown>): Promise<HelperAnswer> {
  try {
    giveUpRights(rights)
    return { kind: 'answer', answer: await work(job) }
  } catch (error) {
    return { kind: 'failed', error: packError(error) }
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
