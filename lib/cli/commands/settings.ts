import { Refusal } from '../../base/errors.js'
import { closest, oneLine } from '../../base/text.js'
import { maskedAddress, type SettingDescription } from '../../model/setting.js'

import type { Client } from '../client/client.js'
import { type AdminOptions, openAdmin } from '../client/session.js'
import { type Context, defineCommand, type Family, toggle, usage } from '../command.js'
import { adminDetails, adminOptions } from '../common-options.js'
import { readSecret } from '../terminal/prompt.js'

/** A setting of the server with its value. */
interface Setting {
  key: string
  /** Null: a secret. */
  value: string | null
  default: string
  isDefault: boolean
  secret: boolean
}

/** The settings of a server: what they are, and their values. The values of secrets may be absent. */
interface Settings {
  call: Client['call']
  rows: SettingDescription[]
  values: Record<string, string>
}

/** The commands for the settings of the server. */
export const commands = {
  'settings list': defineCommand({
    options: { json: toggle('print the settings as JSON, with null for the value of a secret'), ...adminOptions },
    details:
      'docs/settings.md explains each setting. The values of secrets are not shown; "svc settings get" prints one.\n' +
      `"svc config" shows the configuration of this machine instead.\n\n${adminDetails('admin')}`,
    examples: [['settings list', 'list the settings of the configured server']],
    async run({ options }, context) {
      const { rows, values } = await openSettings(context, options)
      context.output.list(
        options.json,
        rows.map(row => settingOf(row, values)),
        {
          empty: 'The server has no settings.',
          columns: [
            { header: 'KEY', cell: ({ key }) => key },
            { header: 'VALUE', cell: shownValue, shrinkTo: 10 },
            {
              header: 'DEFAULT',
              cell: setting => (setting.isDefault ? 'yes' : oneLine(setting.default) || '(empty)'),
              shrinkTo: 10
            }
          ]
        }
      )
    }
  }),

  'settings get': defineCommand({
    operands: { key: { required: true, help: 'key of the setting' } },
    options: { json: toggle('print the setting as JSON, with its value'), ...adminOptions },
    details: `Prints the value alone, also that of a secret.\n\n${adminDetails('admin')}`,
    examples: [['settings get keep_archives', 'print the value of a setting']],
    async run({ options, operands }, context) {
      const { rows, values } = await openSettings(context, options)
      const row = rowOf(rows, operands.key)
      const value = values[row.key]
      if (value === undefined) {
        throw new Refusal(
          'forbidden',
          'secret_setting',
          `The server does not show the value of ${row.key} to this token`
        )
      }
      context.output.result(options.json, { ...settingOf(row, values), value }, value)
    }
  }),

  'settings set': defineCommand({
    operands: {
      settings: { required: true, repeatable: true, help: 'key and value; for one or several settings key=value' }
    },
    options: {
      json: toggle('print the changed settings as JSON, with null for the value of a secret'),
      ...adminOptions
    },
    details:
      'If the server refuses one of the values, no setting changes. "-" as the value of one setting reads it from\n' +
      'standard input. Other users of this machine can see the arguments of a command, so svc never accepts a secret\n' +
      `there. An empty value clears a setting.\n\n${adminDetails('admin')}`,
    examples: [
      ['settings set keep_archives 10', 'change a setting'],
      ['settings set keep_archives=10 audit_days=365', 'change two settings, or none of them'],
      ['settings set webhook_secret - < secret.txt', 'set a secret from a file']
    ],
    async run({ options, operands }, context) {
      const given = pairsOf(operands.settings)
      const { call, rows } = await openSettings(context, options)
      const body: Record<string, string> = {}
      for (const [key, value] of given) {
        const row = rowOf(rows, key)
        if (row.type === 'secret' && !['-', ''].includes(value))
          throw usage(key, `${key} is a secret, and other users can see the command. Use "svc settings set ${key} -"`)
        body[key] = await readSecret(context.host, key, value)
      }
      await call('PUT /api/settings', { body })
      const values = await call('GET /api/settings')
      const changed = given.map(([key]) => settingOf(rowOf(rows, key), values))
      context.output.result(options.json, changed, () => changed.map(each => `Set ${each.key} to ${shownValue(each)}`))
    }
  })
} satisfies Family

async function openSettings(context: Context, options: AdminOptions): Promise<Settings> {
  const call = (await openAdmin(context, options)).client.call
  const { settings: rows } = await call('GET /api/settings/schema')
  return { call, rows, values: await call('GET /api/settings') }
}

/** Returns the setting with a key. Refuses an unknown one, with the nearest. */
function rowOf(rows: readonly SettingDescription[], key: string): SettingDescription {
  const row = rows.find(each => each.key === key)
  if (row !== undefined) return row
  const keys = rows.map(each => each.key)
  const meant = closest(key, keys)
  const advice = meant === undefined ? '. "svc settings list" shows all' : `: did you mean "${meant}"?`
  throw usage(key, `Unknown setting "${oneLine(key)}"${advice}`)
}

function settingOf({ key, type, default: fallback }: SettingDescription, values: Record<string, string>): Setting {
  const secret = type === 'secret'
  const value = values[key]
  return { key, value: secret ? null : (value ?? null), default: fallback, isDefault: value === fallback, secret }
}

/** The path of the address of a chat service is a secret, too. */
function shownValue({ key, value, secret, isDefault }: Setting): string {
  if (secret) return isDefault ? '(secret, not set)' : '*** (secret)'
  if (value === null || value === '') return '(empty)'
  return key === 'webhook_url' ? maskedAddress(value) : oneLine(value)
}

/** Returns keys and values: of `key value`, or of any number of `key=value`. */
function pairsOf(words: readonly string[]): Array<[key: string, value: string]> {
  const [first = '', second, ...more] = words
  if (!first.includes('=') && second !== undefined && more.length === 0) return [[first, second]]
  const pairs = words.map((word): [string, string] => {
    const at = word.indexOf('=')
    if (at < 1) throw usage(word, `The value of "${word}" is missing: use key=value, or one key and its value`)
    return [word.slice(0, at), word.slice(at + 1)]
  })
  const twice = pairs.find(([key], at) => pairs.findIndex(each => each[0] === key) !== at)
  if (twice !== undefined) throw usage(twice[0], `The setting "${twice[0]}" is given twice`)
  if (pairs.filter(([, value]) => value === '-').length > 1)
    throw usage('-', 'Only one value can be read from standard input')
  return pairs
}
