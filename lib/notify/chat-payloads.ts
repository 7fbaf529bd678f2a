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
import type { Notification } from './events.js'
import { bytesOf, chatLines, clip, jsonBytesOf, linkTextOf, titleOf } from './chat-text.js'

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
export function slackPayload(notification: Notification): unknown {
  const title = titleOf(notification)
  const fields = chatLines(notification).map(([name, value]) => {
    return slackMarkdown(clip(`*${name}*\n${value}`, { max: slackFieldLength, escape: slackText }))
  })
  const { url } = notification
  const link =
    url === null ? [] : [{ type: 'section', text: slackMarkdown(`<${slackAddress(url)}|${linkTextOf(notification)}>`) }]
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
export function teamsPayload(notification: Notification): unknown {
  const { event, url } = notification
  const title = clip(titleOf(notification), titleLimit)
  const color = event in colors ? colors[event as keyof typeof colors] : 'Default'
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
          ...(url === null ? {} : { actions: [{ type: 'Action.OpenUrl', title: linkTextOf(notification), url }] })
        }
      }
    ]
  }
}

const colors = {
  deploy_failure: 'Attention',
  deploy_success: 'Good',
  token_expiring: 'Warning',
  token_locked: 'Attention'
} as const

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
export function feishuPayload(notification: Notification): object {
  const { url } = notification
  const title = clip(titleOf(notification), titleLimit)
  const content: object[][] = chatLines(notification).map(([name, value]) => [
    { tag: 'text', text: `${name}: ${clip(value, valueLimit)}` }
  ])
  if (url !== null) content.push([{ tag: 'a', text: linkTextOf(notification), href: url }])
  // One language is enough: it is shown to everybody, and every edition supports this one.
  return {
    msg_type: 'post',
    content: { post: { zh_cn: { title, content: [[{ tag: 'text', text: title }], ...content] } } }
  }
}

/** Returns the message for DingTalk: markdown. Its title is shown in notifications. */
export function dingtalkPayload(notification: Notification): unknown {
  const title = titleOf(notification)
  const lines = chatLines(notification).map(
    ([name, value]) => `- **${name}**: ${clip(value, { ...valueLimit, escape: plain })}`
  )
  const link = notification.url === null ? [] : ['', `[${linkTextOf(notification)}](${notification.url})`]
  const text = [`#### ${clip(title, { ...titleLimit, escape: plain })}`, '', ...lines, ...link].join('\n')
  return { msgtype: 'markdown', markdown: { title: clip(title, titleLimit), text } }
}

/** Escapes markdown, so that a name or a message cannot become a link, a picture or a tag. */
function plain(character: string): string {
  return /[\\`*[\]<>]/.test(character) ? `\\${character}` : character
}

/** Returns the message for WeCom: markdown. Lines that do not fit are dropped from the end. The link comes first. */
export function weComPayload(notification: Notification): unknown {
  const lineLimit = { max: weComValueBytes, measure: bytesOf, escape: wide }
  const link = notification.url === null ? [] : [`[${linkTextOf(notification)}](${notification.url})`]
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
