import fs, { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const calls = ['openSync', 'readSync', 'writeSync', 'fstatSync', 'open', 'read', 'write', 'writev', 'fstat'] as const
const ofHandles = [
  'read',
  'write',
  'writev',
  'stat',
  'datasync',
  'sync',
  'truncate',
  'readFile',
  'appendFile',
  'writeFile'
] as const

type Call = (...args: unknown[]) => unknown

/**
 * Runs `work` and calls `onCall` for each call of this thread that opens, reads, writes or measures a file. If `onCall`
 * throws, the call fails with that error. Afterwards all functions are restored.
 */
export async function withDiskHook<T>(onCall: (name: string) => void, work: () => Promise<T>): Promise<T> {
  const probe = await promises.open('/dev/null')
  const prototype = Object.getPrototypeOf(probe) as Record<string, Call>
  await probe.close()
  const undo: Array<() => void> = []
  const replace = (object: Record<string, Call>, name: string, make: (original: Call) => Call): void => {
    const original = object[name] as Call
    object[name] = make(original)
    undo.push(() => {
      object[name] = original
    })
  }
  const rejecting =
    (name: string) =>
    (original: Call): Call =>
      async function (this: unknown, ...args) {
        onCall(name)
        return await original.apply(this, args)
      }
  for (const name of calls) {
    replace(fs as unknown as Record<string, Call>, name, original => (...args) => {
      const callback = args.at(-1)
      try {
        onCall(name)
      } catch (error) {
        if (typeof callback !== 'function') throw error
        return void process.nextTick(callback as Call, error)
      }
      return original(...args)
    })
  }
  replace(promises as unknown as Record<string, Call>, 'open', rejecting('promises.open'))
  for (const name of ofHandles) replace(prototype, name, rejecting(`handle.${name}`))
  syncBuiltinESMExports()
  try {
    return await work()
  } finally {
    for (const one of undo) one()
    syncBuiltinESMExports()
  }
}
