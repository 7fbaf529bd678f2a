import type { EffectiveConfig } from '../../base/config/precedence.js'
import { usage } from '../command.js'
import type { ConfirmRequest } from '../push-options.js'
import type { Known } from '../run-result.js'

/** Returns the variables of `--set-env`. Throws a usage error. */
export function variables(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map(pair => {
      const [, name, value] = /^([A-Za-z_][A-Za-z0-9_]*)=([^]*)$/.exec(pair) ?? []
      if (name === undefined || value === undefined) {
        throw usage(
          '--set-env',
          `--set-env cannot be "${pair}": it must be NAME=value, with a name of letters, digits and "_"`
        )
      }
      return [name, value]
    })
  )
}

/** Returns the form fields of §4.6, and `message`. Omits values that are not configured, so that the server decides. */
export function formFields(
  config: EffectiveConfig,
  { message, provenance }: Known,
  { seconds }: ConfirmRequest
): Record<string, string | undefined> {
  const { preDeploy, postDeploy, postDeployAsync, env } = config
  const values = Object.fromEntries(Object.entries(env).map(([name, { value }]) => [name, value]))
  return {
    preDeploy: preDeploy?.value,
    postDeploy: postDeploy?.value,
    postDeployAsync: postDeployAsync.source === 'default' ? undefined : String(postDeployAsync.value),
    env: Object.keys(values).length === 0 ? undefined : JSON.stringify(values),
    message: message || undefined,
    confirmSeconds: seconds === null ? undefined : String(seconds),
    provenance: provenance === null ? undefined : JSON.stringify(provenance)
  }
}
