import type { Words } from '../t.js'

/** `pages/login.ts` */
export const words: Words = {
  'Sign in': '登录',
  'Sign in to svc': '登录 svc',
  'Your session has ended. Sign in to go on where you were.': '会话已结束。登录后回到原来的位置。',
  'Admin token': '管理员令牌',
  'Remember me on this device': '在此设备上记住我',
  'Signing in…': '正在登录…',
  'The token is printed when the server starts. Lost it? This command on the server makes a new one:':
    '令牌在服务器启动时显示。忘记了？在服务器上运行此命令可生成新的：',
  'Too many attempts from here: try again in {wait}.': '尝试次数过多：请在 {wait}后重试。'
}
