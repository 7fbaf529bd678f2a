/*
 * syncfs(2), which Node lacks, through the program `sync -f` (GNU coreutils, BusyBox, uutils).
 *
 * The program gets the directory as its working directory, not as a path. The directory is held (core/install/held.ts), and
 * a new process can still enter its parent's descriptors before it executes the program. This works in a helper
 * process, too, whose entries in /proc no other process may access.
 */
import { runProcess } from '../proc/run.js'
import type { SyncFileSystem } from './durable.js'

/** A fixed PATH: the program must not depend on the environment of svc. */
const systemPath = '/usr/bin:/bin:/usr/sbin:/sbin'

/**
 * Syncs the file system of a directory. Any failure returns false: the caller then syncs file by file, and gets a disk
 * error with its name.
 */
export const runSync: SyncFileSystem = async ({ fd }, signal) => {
  if (fd === null) return false
  const command = ['sync', '-f', '.']
  const ended = await runProcess({
    command,
    cwd: `/proc/self/fd/${fd}`,
    env: { PATH: systemPath },
    onLine() {},
    graceMs: 0,
    signal
  })
  return ended.reason === 'exit' && ended.exitCode === 0
}
