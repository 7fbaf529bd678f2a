/*
 * syncfs(2), which Node lacks, through the program `sync -f` (GNU coreutils, BusyBox, uutils).
 *
 * It works in the directory instead of being given a path: the directory is held (target/held.ts), and the new process
 * can still enter its parent's descriptors before it becomes the program, also in a helper process, whose entries in
 * /proc nobody else may look into.
 */
import { runProcess } from '../proc/run.js'
import type { SyncFileSystem } from '../target/durable.js'

/** The program does not depend on what svc was started with. */
const systemPath = '/usr/bin:/bin:/usr/sbin:/sbin'

/**
 * Syncs the file system of a directory. Any failure gives false: the caller syncs file by file then, and meets an error
 * of the disk with its name.
 */
export const runSync: SyncFileSystem = async ({ fd }, signal) => {
  if (fd === null) return false
  const command = ['sync', '-f', '.']
  const ended = await runProcess({ command, cwd: `/proc/self/fd/${fd}`, env: { PATH: systemPath }, onLine() {}, graceMs: 0, signal })
  return ended.reason === 'exit' && ended.exitCode === 0
}
