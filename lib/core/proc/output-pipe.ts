/*
 * A pipe for the output of a script. The pipes of `spawn` are sockets, which cannot be opened again by their name:
 * `echo done > /dev/stderr`, `tee /dev/stderr` and Python's `open('/dev/stdout')` would fail with "No such device or
 * address" (unix(7)). Under ssh, cron and CI systems they work. Node cannot make a pipe, so this is a named one,
 * without a name by the time the script runs. Its mode lets the script's user open it, who has no other way to it.
 */
import { execFile } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { bunVersion, ownMark } from '../../base/runtime.js'

const systemPath = '/usr/bin:/bin'

/** An open pipe. */
export interface OutputPipe {
  reader: Readable
  /** The descriptor for the child. It must be closed here once the child has it. */
  writer: number
}

/**
 * Opens a pipe; null where none can be made or read, as on Windows and in Bun, whose sockets read no descriptor: a
 * socket serves most scripts.
 */
export async function openPipe(): Promise<OutputPipe | null> {
  if (process.platform === 'win32' || bunVersion !== undefined) return null
  let directory: string | null = null
  try {
    directory = mkdtempSync(join(tmpdir(), `svc-pipe-${ownMark()}-`))
    const path = join(directory, 'output')
    await new Promise<void>((resolve, reject) =>
      execFile('mkfifo', ['-m', '666', path], { env: { PATH: systemPath } }, error =>
        error === null ? resolve() : reject(error)
      )
    )
    return open(path)
  } catch {
    return null
  } finally {
    if (directory !== null) rmSync(directory, { recursive: true, force: true })
  }
}

function open(path: string): OutputPipe {
  // Without O_NONBLOCK, each open would wait for the other end.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const writer = openSync(path, constants.O_WRONLY)
    return { reader: new Socket({ fd, readable: true, writable: false }), writer }
  } catch (error) {
    closeSync(fd)
    throw error
  }
}
