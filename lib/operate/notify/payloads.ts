import { createHmac } from 'node:crypto'
import { oneLine as escapedLine } from '../../base/text.js'
import { type Provenance, shortCommit } from '../../model/provenance.js'
import { type NotificationKind, suggestedKind } from '../../model/setting.js'
import type { MailText } from './mail.js'
import { formatBytes } from '../../base/shared/api.js'
import {
  type DeploymentNotification,
  headlineOf,
  type IncidentNotification,
  isIncident,
  linksOf,
  type Notification,
  type TokenNotification
} from './events.js'

/** Part of every title and text, because chat services can require a keyword in each message. */
const keyword = 'svc'
/** Maximum characters of one value in a chat message. The generic payload contains the whole value. */
const maxChatCharacters = 1000

/** Returns one line that says what happened, with the keyword. */
function titleOf(notification: Notification): string {
  return `${keyword} · ${oneLine(headlineOf(notification))}`
}

/** Returns the facts of an event as names and values, without unknown ones. At most ten, which is Slack's limit. */
export function chatLines(notification: Notification): Array<[name: string, value: string]> {
  const lines = linesOf(notification)
  return lines.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, oneLine(value)]]))
}

type Line = [name: string, value: string | null]

function linesOf(notification: Notification): Line[] {
  if (isIncident(notification)) return linesOfIncident(notification)
  return 'token' in notification ? linesOfToken(notification) : linesOfDeployment(notification)
}

function linesOfIncident(incident: IncidentNotification): Line[] {
  const { project, timestamp } = incident
  const about: Line[] = project === null ? [] : [['Project', `${project.name} (${project.id})`]]
  return [...about, ...factsOf(incident), ['Time', timestamp]]
}

function factsOf(incident: IncidentNotification): Line[] {
  switch (incident.event) {
    case 'rollout_waiting':
    case 'rollout_halted': {
      const { id, wave, waves, deployId, haltedReason } = incident.rollout
      return [
        ['Rollout', id],
        ['Wave', `${wave} of ${waves}`],
        ['Deployment', deployId],
        ['Reason', haltedReason]
      ]
    }
    case 'node_lost':
      return [
        ['Node', `${incident.node.name} (${incident.node.id})`],
        ['Last heard of', incident.node.lastSeenAt]
      ]
    case 'drift_found':
      return [
        ['Node', incident.drift.node],
        ['Files', incident.drift.files === null ? null : String(incident.drift.files)]
      ]
    case 'archives_damaged':
      return [['Releases', incident.releases.map(({ id, projectName }) => `${id} (${projectName})`).join(', ')]]
    case 'disk_low': {
      const { path, percentUsed, freeBytes } = incident.disk
      const free = freeBytes === null ? null : formatBytes(freeBytes)
      return [
        ['Directory', path],
        ['Used', percentUsed === null ? null : `${percentUsed} %`],
        ['Free', free]
      ]
    }
    case 'backup_failed':
      return [['Reason', incident.backup.reason]]
  }
}

function linesOfToken(notification: TokenNotification): Line[] {
  const { token, timestamp, lockedUntil } = { lockedUntil: null, ...notification }
  return [
    ['Token', `${token.name} (${token.id})`],
    ['Role', token.role],
    ['Projects', token.projectIds === null ? 'all' : token.projectIds.join(', ')],
    ['Expires', token.expiresAt],
    ['Locked until', lockedUntil],
    ['Time', timestamp]
  ]
}

function linesOfDeployment(notification: DeploymentNotification): Line[] {
  const { project, deployment, errorMessage, timestamp, waitsUntil = null } = notification
  return [
    ['Project', `${project.name} (${project.id})`],
    ['Target', project.deployPath],
    ['Deployment', deployment.id],
    ['Rollback to', deployment.rollbackOf],
    ['Message', deployment.message || (deployment.provenance?.subject ?? null)],
    ['Commit', commitLine(deployment.provenance)],
    ['CI run', runLine(deployment.provenance)],
    ['Waits until', waitsUntil],
    ['Duration', deployment.duration],
    ['Error', errorMessage],
    ['Time', timestamp]
  ]
}

/** Returns a line like `1a2b3c4 on main, by Ada`, as claimed by the client. */
function commitLine(provenance: Provenance | null): string | null {
  if (provenance === null) return null
  const { commit, branch, tag, author } = provenance
  const name = tag ?? branch
  const parts = [commit && shortCommit(commit), name && (commit === null ? name : `on ${name}`)]
    .filter(Boolean)
    .join(' ')
  return parts === '' || author === null ? parts : `${parts}, by ${author}`
}

/** Returns a line like `Drone 42, https://drone.example.org/42`. */
function runLine(provenance: Provenance | null): string | null {
  const { system, run, url } = provenance?.ci ?? { system: null, run: null, url: null }
  if (system === null) return null
  return [[system, run].filter(Boolean).join(' '), url].filter(Boolean).join(', ')
}

function oneLine(text: string): string {
  const line = escapedLine(text.replace(/\s+/g, ' ').trim())
  return line.length > maxChatCharacters ? `${sliceWhole(line, maxChatCharacters)}…` : line
}

/** Cuts a text without splitting a surrogate pair. */
function sliceWhole(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '')
}

/** Options of `clip`. */
export interface Clipping {
  /** Maximum of `measure` for the result, including the ellipsis. */
  max: number
  /** Escapes one character. Default: unchanged. */
  escape?: (character: string) => string
  /** Measures a text in the unit of the limit. Default: UTF-16 units, like `length`. */
  measure?: (text: string) => number
}

/** Escapes a text, and cuts it after a whole character if the escaped text exceeds the limit. */
export function clip(text: string, { max, escape = same, measure = lengthOf }: Clipping): string {
  const end = measure('…')
  let clipped = ''
  let used = 0
  let fitting = ''
  for (const character of text) {
    const written = escape(character)
    used += measure(written)
    if (used > max) return `${fitting}…`
    clipped += written
    if (used + end <= max) fitting = clipped
  }
  return clipped
}

const same = (text: string): string => text
const lengthOf = (text: string): number => text.length
/** Returns the size of a text in UTF-8 bytes. */
export const bytesOf = (text: string): number => Buffer.byteLength(text)
/** Returns the size of a text in bytes within a JSON string, without the quotes. */
export const jsonBytesOf = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2

/*
 * Messages in the formats of chat services. Each message stays below the limits that its service documents, whatever
 * the names and messages contain. Nothing in a text becomes a link, a mention or a picture:
 *
 *   Slack      header 150 characters, at most 10 fields of 2,000 each; & < > are escaped, and texts are verbatim: Slack
 *              makes no links of addresses, and no mentions of @channel
 *   Teams      28 KB; text runs without markdown
 *   Feishu     20 KB; text elements without markup
 *   DingTalk   20,000 bytes; markdown with backslash escapes
 *   WeCom      4,096 bytes of markdown without escapes: its special characters are replaced by their full-width forms
 */

const slackTitleLength = 150
const slackFieldLength = 2_000
/** Ten values of this size and the title stay below 20 KB. */
const valueBytes = 1_500
const titleBytes = 600
const weComBytes = 4_096
const weComValueBytes = 320

const valueLimit = { max: valueBytes, measure: jsonBytesOf }
const titleLimit = { max: titleBytes, measure: jsonBytesOf }

/** Returns the message for Slack: Block Kit, with `text` for notifications and screen readers. */
function slackPayload(notification: Notification): unknown {
  const title = titleOf(notification)
  const fields = chatLines(notification).map(([name, value]) => {
    return slackMarkdown(clip(`*${name}*\n${value}`, { max: slackFieldLength, escape: slackText }))
  })
  const links = linksOf(notification).map(({ words, url }) => `<${slackAddress(url)}|${words}>`)
  const link = links.length === 0 ? [] : [{ type: 'section', text: slackMarkdown(links.join('  ·  ')) }]
  return {
    text: clip(title, { max: slackFieldLength, escape: slackText }),
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: clip(title, { max: slackTitleLength }), emoji: false } },
      { type: 'section', fields },
      ...link
    ]
  }
}

function slackMarkdown(text: string): object {
  return { type: 'mrkdwn', text, verbatim: true }
}

const slackEscapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

function slackText(character: string): string {
  return slackEscapes[character] ?? character
}

/** Escapes an address within `<address|text>`. */
function slackAddress(url: string): string {
  return url.replace(/[|<>]/g, encodeURIComponent).replace(/&/g, '&amp;')
}

/** Returns an Adaptive Card for a Teams workflow that begins with "When a Teams webhook request is received". */
function teamsPayload(notification: Notification): unknown {
  const { event } = notification
  const actions = linksOf(notification).map(({ words, url }) => ({ type: 'Action.OpenUrl', title: words, url }))
  const title = clip(titleOf(notification), titleLimit)
  const color = colors[event]
  const facts = chatLines(notification).map(([name, value]) => {
    return richText([{ text: `${name}: `, weight: 'Bolder' }, { text: clip(value, valueLimit) }])
  })
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          fallbackText: title,
          msteams: { width: 'Full' },
          body: [richText([{ text: title, weight: 'Bolder', size: 'Medium', color }]), ...facts],
          ...(actions.length === 0 ? {} : { actions })
        }
      }
    ]
  }
}

const colors = {
  deploy_failure: 'Attention',
  deploy_success: 'Good',
  deploy_waiting: 'Warning',
  recovered: 'Good',
  rollout_waiting: 'Warning',
  rollout_halted: 'Attention',
  node_lost: 'Attention',
  drift_found: 'Warning',
  archives_damaged: 'Attention',
  disk_low: 'Attention',
  backup_failed: 'Attention',
  token_expiring: 'Warning',
  token_locked: 'Attention',
  webhook_test: 'Default'
} as const satisfies Record<Notification['event'], TextRun['color']>

interface TextRun {
  text: string
  weight?: 'Bolder'
  size?: 'Medium'
  color?: 'Attention' | 'Good' | 'Warning' | 'Default'
}

function richText(runs: readonly TextRun[]): object {
  return { type: 'RichTextBlock', inlines: runs.map(run => ({ type: 'TextRun', ...run })) }
}

/** Returns the message for Feishu and Lark: rich text with paragraphs of plain text elements. */
function feishuPayload(notification: Notification): object {
  const title = clip(titleOf(notification), titleLimit)
  const content: object[][] = chatLines(notification).map(([name, value]) => [
    { tag: 'text', text: `${name}: ${clip(value, valueLimit)}` }
  ])
  for (const { words, url } of linksOf(notification)) content.push([{ tag: 'a', text: words, href: url }])
  // One language is enough: it is shown to everybody, and every edition supports this one.
  return {
    msg_type: 'post',
    content: { post: { zh_cn: { title, content: [[{ tag: 'text', text: title }], ...content] } } }
  }
}

/** Returns the message for DingTalk: markdown. Its title is shown in notifications. */
function dingtalkPayload(notification: Notification): unknown {
  const title = titleOf(notification)
  const lines = chatLines(notification).map(
    ([name, value]) => `- **${name}**: ${clip(value, { ...valueLimit, escape: plain })}`
  )
  const links = linksOf(notification).map(({ words, url }) => `[${words}](${url})`)
  const link = links.length === 0 ? [] : ['', links.join(' · ')]
  const text = [`#### ${clip(title, { ...titleLimit, escape: plain })}`, '', ...lines, ...link].join('\n')
  return { msgtype: 'markdown', markdown: { title: clip(title, titleLimit), text } }
}

/** Escapes markdown, so that a name or a message cannot become a link, a picture or a tag. */
function plain(character: string): string {
  return /[\\`*[\]<>]/.test(character) ? `\\${character}` : character
}

/** Returns the message for WeCom: markdown. Lines that do not fit are dropped from the end. The link comes first. */
function weComPayload(notification: Notification): unknown {
  const lineLimit = { max: weComValueBytes, measure: bytesOf, escape: wide }
  const links = linksOf(notification).map(({ words, url }) => `[${words}](${url})`)
  const link = links.length === 0 ? [] : [links.join(' · ')]
  const lines = [
    `**${clip(titleOf(notification), lineLimit)}**`,
    ...link,
    ...chatLines(notification).map(([name, value]) => `> ${name}: ${clip(value, lineLimit)}`)
  ]
  let content = ''
  for (const line of lines) {
    const longer = content === '' ? line : `${content}\n${line}`
    if (bytesOf(longer) <= weComBytes) content = longer
  }
  return { msgtype: 'markdown', markdown: { content } }
}

const wideForms: Readonly<Record<string, string>> = {
  '<': '＜',
  '>': '＞',
  '[': '［',
  ']': '］',
  '*': '＊',
  '`': '｀',
  '#': '＃',
  '@': '＠'
}

function wide(character: string): string {
  return wideForms[character] ?? character
}

const discordFieldLength = 1_000
const discordTitleLength = 256
/** Values of an embed that stay below 6,000 characters in all. */
const discordValueLength = 450
const discordColors = { Attention: 0xc4314b, Good: 0x237b4b, Warning: 0xb86e00, Default: 0x5865f2 }

/** Returns the message for Discord: one embed, in which nobody is mentioned. */
function discordPayload(notification: Notification): unknown {
  const links = linksOf(notification).map(({ words, url }) => `[${words}](${url})`)
  const limit = { max: Math.min(discordFieldLength, discordValueLength), escape: discordText }
  return {
    username: keyword,
    allowed_mentions: { parse: [] },
    embeds: [
      {
        title: clip(titleOf(notification), { max: discordTitleLength, escape: discordText }),
        color: discordColors[colors[notification.event]],
        ...(links.length > 0 && { description: links.join(' · ') }),
        fields: chatLines(notification).map(([name, value]) => ({ name, value: clip(value, limit), inline: false }))
      }
    ]
  }
}

/** Escapes the markdown of Discord, and addresses, so that no text becomes a link. */
function discordText(character: string): string {
  return /[\\`*_~|[\]()<>#@:]/.test(character) ? `\\${character}` : character
}

/** Priorities of ntfy: 5 is the highest, 3 the usual one. */
const ntfyPriorities = { Attention: 5, Warning: 4, Good: 3, Default: 3 } as const
const ntfyTags = {
  Attention: 'rotating_light',
  Warning: 'hourglass',
  Good: 'white_check_mark',
  Default: 'information_source'
}
const ntfyMessageBytes = 3_800

/** Returns the message for ntfy as JSON, without its topic, which is in the address. */
function ntfyPayload(notification: Notification): object {
  const color = colors[notification.event]
  const links = linksOf(notification)
  const text = chatLines(notification)
    .map(([name, value]) => `${name}: ${value}`)
    .join('\n')
  return {
    title: clip(titleOf(notification), titleLimit),
    message: clip(text, { max: ntfyMessageBytes, measure: bytesOf }),
    priority: ntfyPriorities[color],
    tags: [ntfyTags[color]],
    ...(notification.url !== null && { click: notification.url }),
    ...(links.length > 0 && { actions: links.map(({ words, url }) => ({ action: 'view', label: words, url })) })
  }
}

const telegramCharacters = 4_000

/** Returns the message for Telegram: plain text, so that no text becomes markup, without the chat. */
function telegramPayload(notification: Notification): object {
  const links = linksOf(notification).map(({ words, url }) => `${words}: ${url}`)
  const lines = chatLines(notification).map(([name, value]) => `${name}: ${value}`)
  const text = clip([titleOf(notification), ...links, '', ...lines].join('\n'), { max: telegramCharacters })
  return { text, link_preview_options: { is_disabled: true } }
}

/** Returns the subject and the text of a mail (mail.ts). */
function mailPayload(notification: Notification): MailText {
  const links = linksOf(notification).map(({ words, url }) => `${words}: ${url}`)
  const lines = chatLines(notification).map(([name, value]) => `${name}: ${value}`)
  return {
    subject: titleOf(notification),
    text: [oneLine(headlineOf(notification)), '', ...links, '', ...lines, ''].join('\r\n')
  }
}

/** The kinds that the setting `webhook_url` supports (§6.5). Any other host gets generic JSON. */
const settingsKinds: readonly NotificationKind[] = ['feishu', 'dingtalk']

/** Returns the kind of the setting `webhook_url`, which is derived from its host. */
export function kindOfSetting(hostname: string): NotificationKind {
  const kind = suggestedKind(hostname)
  return settingsKinds.includes(kind) ? kind : 'generic'
}

const builders: Record<NotificationKind, (notification: Notification) => unknown> = {
  generic: genericPayload,
  slack: slackPayload,
  teams: teamsPayload,
  feishu: feishuPayload,
  dingtalk: dingtalkPayload,
  wecom: weComPayload,
  discord: discordPayload,
  ntfy: ntfyPayload,
  telegram: telegramPayload,
  email: mailPayload
}

/** Returns the body of a notification as a value for JSON. */
export function payloadOf(notification: Notification, kind: NotificationKind): unknown {
  return builders[kind](notification)
}

function genericPayload(notification: Notification): unknown {
  if (isIncident(notification)) return payloadOfIncident(notification)
  return 'token' in notification ? payloadOfToken(notification) : payloadOfDeployment(notification)
}

/** Returns the fields of every payload, and those of the incident. It belongs to no deployment. */
function payloadOfIncident(notification: IncidentNotification): unknown {
  const { event, trigger, timestamp, project, url, checkpoint = null, ...rest } = notification
  const message = headlineOf(notification)
  return { event, trigger, timestamp, project, deployment: null, errorMessage: null, message, ...rest, url, checkpoint }
}

/** Returns the fields of every payload, and the token. A token belongs to no deployment, so those fields are null. */
function payloadOfToken(notification: TokenNotification): unknown {
  const { event, trigger, timestamp, token, url, checkpoint = null } = notification
  const { id, name, role, projectIds, expiresAt } = token
  const { daysLeft, lockedUntil } = { daysLeft: undefined, lockedUntil: undefined, ...notification }
  return {
    event,
    trigger,
    timestamp,
    project: null,
    deployment: null,
    errorMessage: null,
    message: headlineOf(notification),
    token: { id, name, role, projectIds, expiresAt, daysLeft, lockedUntil },
    url,
    checkpoint
  }
}

function payloadOfDeployment(notification: DeploymentNotification): unknown {
  const {
    event,
    trigger,
    timestamp,
    project,
    deployment,
    errorMessage,
    waitsUntil,
    url,
    checkpoint = null
  } = notification
  const { id, name, deployPath } = project
  const { status, duration, startTime, endTime, rollbackOf, message, provenance } = deployment
  return {
    event,
    trigger,
    timestamp,
    project: { id, name, deployPath },
    deployment: { id: deployment.id, status, duration, startTime, endTime, rollbackOf, provenance },
    errorMessage,
    message,
    waitsUntil,
    url,
    checkpoint
  }
}

/** A message ready to be sent. */
export interface Outgoing {
  url: URL
  body: string
  headers: Record<string, string>
}

interface Unsigned {
  /** The id, which is the same for every attempt. */
  id: string
  /** Time of this attempt. */
  atMs: number
  url: URL
  payload: unknown
  /** Empty means not signed. */
  secret: string
}

/** Whether a kind has a secret that signs its messages, or signs in. For the other kinds, the address itself is secret. */
export function takesSecret(kind: NotificationKind): boolean {
  return kind === 'generic' || kind === 'email' || kind in signers
}

type Placed = Pick<Unsigned, 'url' | 'payload'> & { headers?: Record<string, string> }

/** Kinds whose messages need their place also without a secret. */
const alwaysPlaced: readonly NotificationKind[] = ['ntfy', 'telegram']

/** How chat services expect the signature, or the token: DingTalk in the address, Feishu in the body. */
const signers: Partial<Record<NotificationKind, (message: Unsigned) => Placed>> = {
  /** Bearer token, if the topic is protected. The topic moves from the address into the body. */
  ntfy({ url, payload, secret }) {
    const topic = url.pathname.split('/').filter(Boolean).at(-1) ?? ''
    const server = new URL(url)
    server.pathname = url.pathname.slice(0, url.pathname.lastIndexOf(topic))
    const headers: Placed['headers'] = secret === '' ? {} : { authorization: `Bearer ${secret}` }
    return { url: server, payload: { topic: decodeURIComponent(topic), ...(payload as object) }, headers }
  },
  /** The token of the bot is part of the path, the chat of the body. */
  telegram({ url, payload, secret }) {
    const method = new URL(`./bot${secret}/sendMessage`, url)
    return { url: method, payload: { chat_id: url.searchParams.get('chat_id'), ...(payload as object) } }
  },
  dingtalk({ url, payload, secret, atMs }) {
    const signed = new URL(url)
    signed.searchParams.set('timestamp', String(atMs))
    signed.searchParams.set('sign', createHmac('sha256', secret).update(`${atMs}\n${secret}`).digest('base64'))
    return { url: signed, payload }
  },
  feishu({ url, payload, secret, atMs }) {
    const timestamp = String(Math.floor(atMs / 1000))
    // As documented: the text is the key, and the signed data is empty.
    const sign = createHmac('sha256', `${timestamp}\n${secret}`).digest('base64')
    return { url, payload: { timestamp, sign, ...(payload as object) } }
  }
}

/**
 * Signs a message for its kind. Also adds the headers of the Standard Webhooks convention, which other kinds ignore.
 */
export function signed(kind: NotificationKind, message: Unsigned): Outgoing {
  const isPlain = message.secret === '' && !alwaysPlaced.includes(kind)
  const { url, payload, headers = {} }: Placed = isPlain ? message : (signers[kind]?.(message) ?? message)
  const body = JSON.stringify(payload)
  // A token is no key for signatures.
  const secret = alwaysPlaced.includes(kind) ? '' : message.secret
  return { url, body, headers: { ...webhookHeaders({ ...message, secret, body }), ...headers } }
}

/**
 * Returns the headers of the Standard Webhooks convention: the id of the message, which all attempts share, and the
 * time of this attempt in seconds. With a secret, there is also the signature of "id.timestamp.body".
 */
export function webhookHeaders(message: {
  id: string
  atMs: number
  body: string
  secret: string
}): Record<string, string> {
  const { id, atMs, body, secret } = message
  const timestamp = String(Math.floor(atMs / 1000))
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp }
  if (secret === '') return headers
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { ...headers, 'webhook-signature': `v1,${signature}` }
}

const prefix = 'whsec_'

/** Returns the key of a secret: base64 after the convention's prefix, otherwise the text itself (decisions §8). */
function keyOf(secret: string): Buffer {
  return secret.startsWith(prefix) ? Buffer.from(secret.slice(prefix.length), 'base64') : Buffer.from(secret, 'utf8')
}
