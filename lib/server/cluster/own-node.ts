/*
 * The node of a hub: an agent in a process of its own, whose data directory is `node/` in that of the hub. So the targets on the
 * machine of the hub stay where they are when another hub leads, and are deployed like those of every other machine.
 */
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pause } from '../../base/pause.js'
import { fileURLToPath } from 'node:url'
import { type Environment, nodeName } from '../../config/home.js'
import { keepProgram, type KeptProgram } from '../../proc/kept-program.js'
import { reasonOf, Refusal } from '../../base/errors.js'

/** The node of a hub. */
export interface OwnNode {
  stop(): Promise<void>
}

/** Dependencies of the node. */
export interface OwnNodeNeeds {
  /** The data directory of the hub. */
  directory: string
  /** The URL of the hub. */
  url: string
  /** Path of certificates that the agent checks hubs with. */
  caFile: string | null
  environment: Environment
  /** Returns a one-time token for a new node. Rejects while nobody leads. */
  enroll(signal: AbortSignal): Promise<string>
  warn(sentence: string): void
}

const retryMs = 2000
const program = fileURLToPath(new URL('../../../../bin/svc.js', import.meta.url))
/** What the agent must not get: secrets of the hub, and its own settings. */
const notPassed = /^(ADMIN_TOKEN|SVC_.*|NOTIFY_SOCKET)$/

/** Starts the agent of a hub, and enrolls it if it is new. */
export function startOwnNode({ directory, url, caFile, environment, enroll, warn }: OwnNodeNeeds): OwnNode {
  const home = join(directory, nodeName)
  const stopping = new AbortController()
  let kept: KeptProgram | undefined

  async function tokenOf(): Promise<string | undefined> {
    let told = ''
    // The directory may be restored from its backup meanwhile.
    while (!existsSync(join(home, 'agent.json'))) {
      try {
        return await enroll(stopping.signal)
      } catch (error) {
        stopping.signal.throwIfAborted()
        const sentence = whyNot(error)
        if (sentence !== told) warn(sentence)
        told = sentence
        await pause(retryMs, stopping.signal)
      }
    }
    return undefined
  }

  function whyNot(error: unknown): string {
    if (!(error instanceof Refusal) || error.code !== 'name_taken')
      return `Cannot enroll the node of this hub yet: ${reasonOf(error)}`
    return `The cluster knows the node of this hub, but "${home}" does not have its key. Restore the backup of that directory. Without one, remove the node with "svc fleet forget": then a new one is enrolled, without the records of the earlier one`
  }

  async function start(): Promise<void> {
    await mkdir(home, { recursive: true, mode: 0o700 })
    const token = await tokenOf()
    const passed = Object.entries(environment).filter(([name]) => !notPassed.test(name))
    kept = keepProgram({
      file: process.execPath,
      // Its address is this machine's own, whatever its name.
      args: [program, 'agent', '--hub', url, '--allow-http', ...(caFile === null ? [] : ['--ca', caFile])],
      env: { ...Object.fromEntries(passed), SVC_HOME: home, ...(token !== undefined && { SVC_ENROLL_TOKEN: token }) },
      onEnd: (code, errors) => warn(`The agent of this hub ended (${code ?? 'not started'}): ${errors}`)
    })
  }

  const starting = start().catch((error: unknown) => {
    if (!stopping.signal.aborted) warn(`Cannot start the node of this hub: ${reasonOf(error)}`)
  })
  return {
    async stop() {
      stopping.abort()
      await starting
      await kept?.stop()
    }
  }
}
