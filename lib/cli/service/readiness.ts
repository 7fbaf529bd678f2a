/*
 * Notifies systemd, and programs that wait for a file, that the server is ready.
 *
 * The protocol of systemd (sd_notify(3)) is a datagram to the Unix socket in NOTIFY_SOCKET. Node does not support Unix
 * datagram sockets, so the program systemd-notify sends it, which is installed with systemd. systemd-notify is a
 * process of its own, so systemd ignores its messages unless the unit has NotifyAccess=all.
 */
import { constants } from 'node:fs'
import { access, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { reasonOf, Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import type { Context } from '../command.js'

const notifyLimitMs = 10_000
const readyFileMode = 0o644

/** Announces the state of the server. */
export interface Readiness {
  /** The server answers every request at this address. */
  ready(url: string): Promise<void>
  /** The server is reloading its settings; `ready` follows. */
  reloading(): Promise<void>
  stopping(isIdle: boolean): Promise<void>
}

/**
 * Creates the notifier. `readyFile` contains the address while the server is ready; a file of an earlier server is
 * removed. Refuses (`invalid`) invalid_path if the file cannot be written. Warns if systemd cannot be notified, because
 * systemd would then wait and kill the server.
 */
export async function createReadiness(
  readyFile: string | undefined,
  { env, cwd, output }: Context
): Promise<Readiness> {
  if (readyFile !== undefined) await prepare(readyFile)

  async function notify(...words: string[]): Promise<void> {
    const { NOTIFY_SOCKET } = env
    if (!NOTIFY_SOCKET) return
    const [{ runProcess }, { inheritedEnvironment }] = await Promise.all([
      import('../../proc/run.js'),
      import('../../proc/environment.js')
    ])
    const lines: string[] = []
    const command = ['systemd-notify', ...words]
    const ended = await runProcess({
      command,
      cwd,
      env: { ...inheritedEnvironment(env), NOTIFY_SOCKET },
      timeoutMs: notifyLimitMs,
      onLine: line => void lines.push(line)
    })
    if (ended.exitCode === 0) return
    const why = ended.error ?? (lines.join(' ') || `it exited with ${ended.signal ?? ended.exitCode}`)
    output.warn(
      `cannot notify systemd of "${words[0]}": systemd-notify failed: ${why}. Use Type=exec in the unit, or --ready-file`
    )
  }

  return {
    async ready(url) {
      if (readyFile !== undefined) {
        await replaceFile(readyFile, `${url}/\n`, readyFileMode).catch((error: unknown) =>
          output.warn(`cannot write the ready file "${readyFile}": ${reasonOf(error)}`)
        )
      }
      await notify('READY=1', `STATUS=Listening on ${url}/`)
    },
    // Type=notify-reload requires the time; `hrtime` uses the same clock.
    reloading: () => notify('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    async stopping(isIdle) {
      if (readyFile !== undefined) await rm(readyFile, { force: true }).catch(() => {})
      await notify('STOPPING=1', `STATUS=${isIdle ? 'Stopping' : 'Waiting for running deployments'}`)
    }
  }
}

async function prepare(readyFile: string): Promise<void> {
  try {
    await rm(readyFile, { force: true })
    await access(dirname(readyFile), constants.W_OK)
  } catch (cause) {
    throw new Refusal('invalid', 'invalid_path', `Cannot write --ready-file "${readyFile}": ${reasonOf(cause)}`, {
      field: '--ready-file',
      cause
    })
  }
}
