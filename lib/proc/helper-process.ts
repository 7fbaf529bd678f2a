/*
 * The inside of a helper process (helper.ts starts it). It begins with the rights of svc, loads its code, gives the
 * rights up for good, and only then receives its job.
 *
 * After the change of user the kernel holds the process undumpable: the user whose rights it has cannot trace it, read
 * its memory or open what it holds (ptrace(2), proc(5)). That user can kill or stop it, and harms own projects only.
 */
import type { Rights } from './identity.js'
import { packError, type PackedError } from '../base/packed-error.js'

/** What svc sends first. */
export interface HelperTask {
  rights: Rights
  job: unknown
}

/** What the process answers, once. */
export type HelperAnswer = { kind: 'answer'; answer: unknown } | { kind: 'failed'; error: PackedError }

/** Does the one job of this process with the rights that come with it, answers, and waits to be let go. */
export function serveHelper<Job>(work: (job: Job) => Promise<unknown>): void {
  process.once('message', async (task: HelperTask) => {
    // Without a function for it, the failure of a send to a svc that is gone would be thrown.
    process.send?.(await answer(task, work as (job: unknown) => Promise<unknown>), undefined, {}, () => {})
  })
  // svc has let go, or is gone.
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

/** Takes on the rights of the identity, for good. Throws when anything of the old ones is left. */
function giveUpRights({ identity: { name, uid, gid }, umask }: Rights): void {
  // The types of Node lack it.
  ;(process as NodeJS.Process & { initgroups?(user: string, group: number): void }).initgroups?.(name, gid)
  process.setgid?.(gid)
  process.setuid?.(uid)
  if (umask !== null) process.umask(umask)
  const ids = [process.getuid?.(), process.geteuid?.(), process.getgid?.(), process.getegid?.()]
  if (ids.join() !== [uid, uid, gid, gid].join() || uid === 0) throw new Error('The rights of svc could not be given up')
}
