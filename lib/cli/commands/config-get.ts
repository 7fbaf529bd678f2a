import { Refusal } from '../../base/errors.js'
import { closest } from '../../base/text.js'
import { type ConfigRow, configRows } from '../../base/config/precedence.js'
import { loadConfiguration } from '../client/session.js'
import { defineCommand, type Family, toggle, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'

const keys = [
  'serverUrl',
  'projectId',
  'deployToken',
  'adminToken',
  'outputDir',
  'files',
  'ignore',
  'ignoreBuiltin',
  'preDeploy',
  'postDeploy',
  'postDeployAsync'
]

/** The command that prints one value. */
export const commands = {
  'config:get': defineCommand({
    operands: { key: { required: true, help: `one of ${keys.join(', ')}, or env.<name>` } },
    options: { env: sharedOptions.env, json: toggle('print the value as JSON, with its source') },
    details:
      'Prints the value that "svc push" would use here; "svc config" shows all of them. "token" is the deploy token, if\n' +
      'there is one, else the stored admin token or named token. Only the last four characters of a token are printed. The exit code is 1 if the\n' +
      'key has no value.',
    examples: [
      ['config:get serverUrl', 'print the server of the project in this directory'],
      ['config:get projectId --env staging', 'print the project of an environment']
    ],
    async run({ options, operands: { key } }, context) {
      const wanted = key === 'token' ? ['deployToken', 'adminToken'] : [key]
      if (key !== 'token' && !keys.includes(key) && !key.startsWith('env.')) throw unknownKey(key)
      const { config } = await loadConfiguration(context, { flags: {}, env: options.env, project: 'optional' })
      const rows = configRows(config)
      const found = wanted.map(name => rows.filter(row => row.key === name)).find(({ length }) => length > 0)
      if (found === undefined) throw new Refusal('not_found', 'no_value', `"${key}" has no value here`)
      context.output.result(options.json, found.length === 1 ? found[0] : found, textOf(found))
    }
  })
} satisfies Family

/** Returns the value. The ignore patterns have several sources. */
function textOf(rows: readonly ConfigRow[]): string {
  return rows.map(({ value }) => value).join(', ')
}

function unknownKey(key: string): Refusal {
  const meant = closest(key, keys)
  const advice = meant === undefined ? `choose one of ${keys.join(', ')}` : `did you mean "${meant}"?`
  return usage(key, `Unknown key "${key}": ${advice}`)
}
