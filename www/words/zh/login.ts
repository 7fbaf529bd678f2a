import type { Words } from '../t.js'

/** Texts of `pages/login.ts`. */
export const words: Words = {
  'Sign in': '登录',
  'Sign in to svc': '登录 svc',
  'Your session has ended. Sign in to continue.': '会话已结束。登录后回到原来的位置。',
  Token: '令牌',
  'Remember me on this device': '在此设备上记住我',
  'Use another token': '使用其他令牌',
  'Signing in…': '正在登录…',
  'Use the admin token or a token of your own. The server prints the admin token when it starts. If you lost it, create a new one with this command on the server:':
    '请使用管理员令牌或您自己的令牌。管理员令牌在服务器启动时显示。忘记了？在服务器上运行此命令可生成新的：',
  'You can try again in {wait}.': '您可以在 {wait}后重试。'
}
