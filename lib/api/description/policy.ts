/* The schema of a project's policy (model/policy.ts). */
import { policyKeys } from '../../model/policy-keys.js'
import type { Check, Gate, PolicyChanges } from '../../model/policy.js'
import {
  anyOf,
  constant,
  described,
  dictionary,
  integer,
  list,
  named,
  number,
  oneOf,
  optional,
  record,
  schema,
  text,
  type Schema
} from './schema.js'

const check = named(
  'Check',
  anyOf<Check[]>(
    record<Extract<Check, { http: string }>>({
      http: text('http://127.0.0.1:3000/up'),
      status: optional(described('Accepted status codes', text('200-299'))),
      contains: optional(described('Text that the body must contain in its first 64 KiB', text('ok'))),
      header: optional(described('Request headers', dictionary(text('release-1'), { 'x-release': 'release-1' })))
    }) as never,
    record<Extract<Check, { tcp: string }>>({ tcp: text('127.0.0.1:5432') }) as never,
    record<Extract<Check, { command: string }>>({
      command: described('A script that must end with exit code 0', text('node check.js')),
      timeout: optional(described('Seconds', number(20)))
    }) as never,
    record<Extract<Check, { pm2: 'online' }>>({ pm2: constant('online') }) as never,
    record<Extract<Check, { log: string }>>({
      log: described('Id of a log source of the project', text('lsrc_1a2b3c4d5e6f7a8b')),
      none: described('Regular expression that no new line may match', text('(?i)panic')),
      for: described('Seconds', number(30))
    }) as never
  ) as Schema<Check>
)

const gate = named(
  'Gate',
  record<Gate>({
    after: described('All must pass', list(check)),
    interval: described('Seconds between two attempts', number(1)),
    timeout: described('Seconds that one attempt may take', number(5)),
    deadline: described('Seconds after which the deployment fails', number(30)),
    successes: described('Number of attempts in a row that must pass', integer(2)),
    stableFor: described('Seconds for which the checks must continue to pass', number(0)),
    onFailure: described('Whether a failed check puts the earlier files back', oneOf(['revert', 'keep']))
  })
)

const properties = Object.fromEntries(
  Object.entries(policyKeys).map(([name, { read, what }]) => [name, { ...read.schema, description: what }])
)

/** The keys of its policy that a project sets. */
export const policy = named(
  'Policy',
  schema<PolicyChanges>({ type: 'object', properties, additionalProperties: false }, { drift: 'refuse' }, gate.uses)
)
