import { Refusal } from '../../base/errors.js'
import { oneLine } from '../../base/text.js'
import { eventKeys, notificationKinds, type NotificationTargetView } from '../../model/setting.js'
import { isSameName } from '../../model/project.js'
import type { Client } from '../client/client.js'
import { projectNamesOf } from '../client/named-project.js'
import { nearOr } from '../client/near-names.js'
import { type AdminOptions, openAdmin } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle, usage } from '../command.js'
import { adminDetails, adminOptions, sharedOptions } from '../common-options.js'
import { projectIdsOf, projectsOption, scopeOf } from '../named-tokens.js'
import { confirmation, mustAsk, readSecret } from '../terminal/prompt.js'
import { splitList } from '../terminal/words.js'

type Event = (typeof eventKeys)[number]
type Kind = (typeof notificationKinds)[number]

const targetOperand = { required: true, help: 'name or id of the target' } as const

/** The commands for the targets of notifications. */
export const commands = {
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
