import { AsyncLocalStorage } from 'node:async_hooks'
import { promises } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const calls = ['copyFile', 'link', 'mkdir', 'open', 'rename', 'rm', 'symlink', 'unlink', 'writeFile'] as const

type Call = (...args: unknown[]) => Promise<unknown>

/** The number of calls that a frozen `work` may still make, and the effect of the next one. */
interface Victim {
  callsLeft: number
  freeze(): void
}

const victims = new AsyncLocalStorage<Victim>()
let isWatching = false

/** The watch stays: after `work` is frozen, none of its branches may change a file, as after a kill. */
function watch(): void {
  if (isWatching) return
  isWatching = true
  for (const name of calls) {
    const original = promises[name] as Call
    const call: Call = (...args) => {
      const victim = victims.getStore()
      if (victim === undefined || victim.callsLeft-- > 0) return original(...args)
      victim.freeze()
      return new Promise(() => {})
    }
    Object.assign(promises, { [name]: call })
  }
  syncBuiltinESMExports()
}

/**
 * Runs `work`, and stops it for ever before its n-th call that opens or changes a file, as a kill would; n begins at 0.
 * Returns whether it was stopped. Only the promises of node:fs are counted. `work` that was not stopped runs on freely.
 */
export async function freezeAt(n: number, work: () => Promise<unknown>): Promise<boolean> {
  watch()
  let freeze: (isFrozen: boolean) => void = () => {}
  const frozen = new Promise<boolean>(resolve => (freeze = resolve))
  const victim = { callsLeft: n, freeze: () => freeze(true) }
  const done = victims.run(victim, work).then(() => {
    victim.callsLeft = Infinity
    return false
  })
  return await Promise.race([frozen, done])
}
