import { Refusal } from '../../base/errors.js'
import { closest, oneLine } from '../../base/text.js'
import {
  maskedAddress,
  type SettingDescription,
  eventKeys,
  notificationKinds,
  type NotificationTargetView
} from '../../model/setting.js'
import type { Client } from '../client/client.js'
import { type AdminOptions, openAdmin } from '../client/session.js'
import { type Context, defineCommand, type Family, toggle, usage, exitCodes, option } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { readSecret, confirmation, mustAsk } from '../terminal/prompt.js'
import { isSameName } from '../../model/project.js'
import { projectNamesOf, nearOr } from '../client/named-project.js'
import { projectIdsOf, projectsOption, scopeOf } from '../named-tokens.js'
import { splitList } from '../terminal/words.js'

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

const targetOperand = { required: true, help: 'name or id of the target' } as const

/** The commands for the settings of the server and its notification targets. */
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
  }),

  'notify list': defineCommand({
    options: { json: toggle('print the targets as JSON'), ...adminOptions },
    details:
      'Secrets and the paths of addresses are not shown. The target with the name webhook_url is that of the settings\n' +
      `webhook_url and webhook_events.\n\n${adminDetails('admin')}`,
    examples: [['notify list', 'list the notification targets of the configured server']],
    async run({ options }, context) {
      const { client } = await openAdmin(context, options)
      const { items } = await client.call('GET /api/notification-targets')
      if (options.json) return context.output.json(items)
      const names = await projectNamesOf(client)
      const shown = items.filter(({ isFromSettings, enabled }) => !isFromSettings || enabled)
      context.output.list(false, shown, {
        empty: 'There are no notification targets. "svc notify add" adds one.',
        columns: [
          { header: 'NAME', cell: ({ name }) => oneLine(name), shrinkTo: 16 },
          { header: 'KIND', cell: ({ kind }) => kind },
          { header: 'ADDRESS', cell: ({ address }) => oneLine(address), shrinkTo: 10, drop: 'last' },
          {
            header: 'PROJECTS',
            cell: ({ projectIds }) => scopeOf({ projectIds: projectIds.length === 0 ? null : projectIds }, names),
            shrinkTo: 10,
            drop: 'last'
          },
          { header: 'EVENTS', cell: eventsOf, shrinkTo: 10, drop: 'last' },
          { header: 'STATE', cell: stateOf, shrinkTo: 24, wraps: true }
        ]
      })
    }
  }),

  'notify add': defineCommand({
    fields: { projectIds: '--project' },
    operands: { name: { required: true, help: 'name of the target, for lists and the audit log' } },
    options: {
      kind: option(
        'kind',
        `format of the messages: ${notificationKinds.join(', ')}; default: what the address suggests`,
        { choices: notificationKinds }
      ),
      url: option('url', 'address that receives messages; "-" reads it from standard input'),
      secret: option('-', 'read a secret or a token from standard input', { choices: ['-'] }),
      events: option('events', 'events to notify about, separated by commas; default: all'),
      project: projectsOption('id or name of a project that the target is limited to; default: all'),
      json: toggle('print the target as JSON'),
      ...adminOptions
    },
    details:
      'The addresses of chat services contain secrets, and other users of this machine can see the arguments of a\n' +
      'command: use --url -, or leave it out to be asked. Together, --url - and --secret - need a terminal.\n\n' +
      `The events are: ${eventKeys.join(', ')}.\n\n${adminDetails('admin')}`,
    examples: [
      ['notify add team --url - < url.txt', 'send everything to a chat, with its address in a file'],
      ['notify add shop --kind slack --url - --events deploy_failure --project shop', 'tell a chat about one project']
    ],
    async run({ options, operands }, context) {
      const { kind, url, secret, events, project, json } = options
      const { host, output } = context
      if (url === undefined) mustAsk(host, 'The address is missing', 'use "--url -" to read standard input')
      if (url === '-' && secret !== undefined && !host.stdin.isTTY)
        throw usage('--secret', 'Only one of --url and --secret can be read from standard input')
      const { client } = await openAdmin(context, options)
      const projectIds = await projectIdsOf(client, project)
      const body = {
        name: operands.name,
        url: (await readSecret(host, '--url', url ?? '-')).trim(),
        ...(secret !== undefined && { secret: await readSecret(host, '--secret', secret) }),
        ...(kind !== undefined && { kind: kind as Kind }),
        ...(events !== undefined && { events: splitList(events) as Event[] }),
        ...(projectIds !== null && { projectIds })
      }
      const { target } = await client.call('POST /api/notification-targets', { body })
      output.result(json, target, oneLine(`Added "${target.name}" (${target.kind}, ${target.address})`))
    }
  }),

  'notify test': defineCommand({
    operands: { target: targetOperand },
    options: { json: sharedOptions.json, ...adminOptions },
    details: `Sends a test message and says what the receiver answered.\n\n${adminDetails('admin')}`,
    examples: [['notify test team', 'find out whether messages arrive']],
    async run({ options, operands }, { output, ...context }) {
      const { call, target } = await openTarget({ output, ...context }, options, operands.target)
      const answer = await call('POST /api/notification-targets/:id/test', { id: target.id })
      const { success, statusCode, durationMs, error } = answer
      const status = statusCode === null ? '' : ` with status ${statusCode}`
      if (options.json) output.json(answer)
      else if (success) output.print(oneLine(`"${target.name}" answered${status} in ${durationMs} ms`))
      else output.error(error ?? `The test message was not delivered${status}`)
      return success ? exitCodes.success : exitCodes.failed
    }
  }),

  'notify remove': defineCommand({
    operands: { target: targetOperand },
    options: {
      yes: { ...sharedOptions.yes, help: 'do not ask before removing the target; required without a terminal' },
      ...adminOptions
    },
    details: `Messages that are not delivered yet are dropped.\n\n${adminDetails('admin')}`,
    examples: [['notify remove team --yes', 'remove a notification target without being asked']],
    async run({ options, operands }, context) {
      const isSure = confirmation(context, { yes: options.yes, what: 'Removing a notification target' })
      const { call, target } = await openTarget(context, options, operands.target)
      const name = oneLine(target.name)
      if (!(await isSure(`Remove the notification target "${name}"?`))) return exitCodes.failed
      await call('DELETE /api/notification-targets/:id', { id: target.id })
      context.output.print(`Removed the notification target "${name}"`)
      return exitCodes.success
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

type Event = (typeof eventKeys)[number]
type Kind = (typeof notificationKinds)[number]

/** Opens the API and finds a target by its name or id. */
async function openTarget(
  context: Context,
  options: AdminOptions,
  word: string
): Promise<{ call: Client['call']; target: NotificationTargetView }> {
  const call = (await openAdmin(context, options)).client.call
  const { items } = await call('GET /api/notification-targets')
  const byId = items.filter(({ id }) => id === word)
  const [target, ...others] = byId.length > 0 ? byId : items.filter(each => isSameName(each.name, word))
  if (target === undefined) {
    const names = items.map(({ name }) => name)
    const advice = nearOr(word, names, '"svc notify list" shows the names')
    throw new Refusal('not_found', 'no_such_target', oneLine(`Notification target not found: "${word}". ${advice}`))
  }
  if (others.length === 0) return { call, target }
  const ids = [target, ...others].map(({ id }) => id).join(', ')
  throw usage(word, `Several notification targets have the name "${oneLine(word)}". Use one of their ids: ${ids}`)
}

function eventsOf({ events }: NotificationTargetView): string {
  return events.length === eventKeys.length ? 'all' : events.join(', ')
}

function stateOf({ enabled, queue: { waiting, problem, dropped }, failure }: NotificationTargetView): string {
  if (!enabled) return 'disabled'
  const parts = [
    ...(waiting === 0 ? [] : [`${waiting} waiting${problem === null ? '' : `: ${problem}`}`]),
    // An older server does not say it.
    ...(failure === undefined ? [] : [`failed: ${failure.reason}`]),
    ...(dropped > 0 ? [`${dropped} dropped`] : [])
  ]
  return oneLine(parts.join(', ')) || 'enabled'
}
