import hooks, { type AsyncHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

/**
 * Keeps tap from what it does to find the test that an uncaught error belongs to: it follows every promise and every
 * handle until it is collected, which takes 6 % of the processor time of tests with servers. No other hook of this
 * process asks when something is collected. Call it before tap is loaded.
 */
export function withoutDomains(): void {
  const { createHook } = hooks
  const none: AsyncHook = { enable: () => none, disable: () => none }
  hooks.createHook = callbacks => (callbacks.destroy === undefined ? createHook(callbacks) : none)
  syncBuiltinESMExports()
}
