import { AsyncLocalStorage } from 'node:async_hooks'
import { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const calls = ['copyFile', 'link', 'mkdir', 'open', 'rename', 'rm', 'symlink', 'unlink', 'writeFile'] as const

type Call = (...args: unknown[]) => Promise<unknown>

/**
 * Runs `work`, and stops it for ever before its n-th call that opens or changes a file, as a kill would; n begins at 0.
 * Returns whether it was stopped. Only the promises of node:fs are counted.
 */
export async function freezeAt(n: number, work: () => Promise<unknown>): Promise<boolean> {
  const victim = new AsyncLocalStorage<true>()
  const originals = new Map(calls.map(name => [name, promises[name] as Call]))
  const set = (name: string, call: Call | undefined): void => void Object.assign(promises, { [name]: call })
  let made = 0
  let freeze: (isFrozen: boolean) => void = () => {}
  const frozen = new Promise<boolean>(resolve => (freeze = resolve))
  for (const [name, original] of originals) {
    set(name, (...args) => {
      if (victim.getStore() === undefined || made++ < n) return original(...args)
      freeze(true)
      return new Promise(() => {})
    })
  }
  syncBuiltinESMExports()
  try {
    return await Promise.race([frozen, victim.run(true, work).then(() => false)])
  } finally {
    // What is stopped stays so: its calls never resolve.
    for (const [name, original] of originals) set(name, original)
    syncBuiltinESMExports()
  }
}
