import type { Words } from '../t.js'

/** Texts of `pages/denied.ts`. */
export const words: Words = {
  'No access': '无权访问',
  'Your token may not open this page': '您的令牌无权打开此页面',
  'This page concerns the whole server, and the token “{name}” is limited to {count}.':
    '此页面涉及整个服务器，而令牌“{name}”仅限于 {count}。',
  'This page requires the role {needed}. The token “{name}” has the role {role}.':
    '此页面需要角色“{needed}”。令牌“{name}”的角色是“{role}”。',
  'This page requires the role {needed} or a higher one. The token “{name}” has the role {role}.':
    '此页面需要角色“{needed}”或更高的角色。令牌“{name}”的角色是“{role}”。'
}
