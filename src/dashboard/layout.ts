import { type Html, html } from './html.ts';

export interface PageOptions {
  readonly title: string;
  /** '' or a path without trailing slash: where the dashboard lives. */
  readonly base: string;
  /** Seconds between refreshes of the page's content; 0 = never. */
  readonly refresh: number;
  /** Who is looking; undefined on the sign-in page. */
  readonly who?: string;
  readonly signedIn?: boolean;
}

/** The frame of every page. Styles and the refresh script are files of ours, so that the CSP can forbid inline code. */
export function page(options: PageOptions, body: Html): string {
  const { title, base, refresh, who, signedIn } = options;
  return html`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>${title} · Windlass</title>
<link rel="icon" href="${base}/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${base}/assets/style.css">
${refresh > 0 ? html`<noscript><meta http-equiv="refresh" content="${refresh}"></noscript><script src="${base}/assets/refresh.js" data-seconds="${refresh}" defer></script>` : ''}
</head>
<body>
<header><a class="brand" href="${base}/">Windlass</a>${who === undefined ? '' : html`<nav><a href="${base}/">Instances</a><a href="${base}/queues">Queues</a></nav><span class="who">${who}</span>${signedIn ? html`<form method="post" action="${base}/logout"><button>Sign out</button></form>` : ''}`}</header>
<main>${body}</main>
</body>
</html>
`.text;
}

export const style = `:root{color-scheme:light dark;--back:#f7f8fa;--card:#fff;--ink:#1b2430;--soft:#5b6878;--line:#dfe4ea;--link:#0b5cad;--good:#1a7f43;--warn:#8a5a00;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--back:#12161c;--card:#1a2028;--ink:#e4e9f0;--soft:#98a5b5;--line:#2d3641;--link:#7bb8ff;--good:#5fd08a;--warn:#e5b45a;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header{display:flex;flex-wrap:wrap;gap:1rem;align-items:center;padding:.6rem 1.2rem;background:var(--card);border-bottom:1px solid var(--line)}
.brand{font-weight:700;color:inherit;text-decoration:none}
nav{display:flex;gap:1rem}
.who{margin-left:auto;color:var(--soft)}
a{color:var(--link)}
main{max-width:75rem;margin:0 auto;padding:1.2rem}
h1{font-size:1.35rem;margin:.2rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:1.6rem 0 .5rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:.5rem;overflow-x:auto}
table{width:100%;border-collapse:collapse}
th,td{text-align:left;padding:.45rem .8rem;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
thead th,table:not(:has(thead)) tr:first-child>*{border-top:0}
th{font-weight:600;color:var(--soft);white-space:nowrap}
.state{display:inline-block;padding:0 .5rem;border-radius:1rem;border:1px solid currentColor;font-size:.85em;white-space:nowrap;color:var(--warn)}
.state-ready,.state-done{color:var(--good)}
.state-failed,.state-lost{color:var(--bad)}
.state-suspended,.state-pending{color:var(--soft)}
.soft{color:var(--soft)}
.failure{border-left:4px solid var(--bad);padding:.8rem 1rem}
.failure p{margin:.2rem 0}
.empty{padding:1.5rem;color:var(--soft)}
.filters{display:flex;flex-wrap:wrap;gap:.5rem .9rem;margin-bottom:.8rem}
.filters a[aria-current]{font-weight:700;color:var(--ink);text-decoration:none}
pre{margin:0;padding:.8rem;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85em}
form{display:flex;gap:.5rem;margin:0}
input,button{font:inherit;padding:.3rem .6rem;border:1px solid var(--line);border-radius:.3rem;background:var(--back);color:inherit}
button{cursor:pointer}
time{white-space:nowrap}
`;

/**
 * Swaps the content of the page for a fresh one; leaves it alone while it is hidden or text is selected. A server that does
 * not answer is asked again in the next round: the page must not end because a deployment restarts it.
 */
export const refreshScript = `const seconds=Number(document.currentScript.dataset.seconds)||5;
setInterval(async()=>{
  if(document.hidden||String(getSelection())!=='')return;
  const answer=await fetch(location.href,{headers:{accept:'text/html'}}).catch(()=>undefined);
  if(!answer)return;
  if(answer.status===401){location.reload();return}
  if(!answer.ok&&answer.status!==404&&answer.status!==410)return;
  const fresh=new DOMParser().parseFromString(await answer.text(),'text/html').querySelector('main');
  if(fresh)document.querySelector('main').replaceWith(fresh);
},seconds*1000);
`;

export const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="13" fill="none" stroke="#3b82c4" stroke-width="4"/><path d="M16 3v26M3 16h26" stroke="#3b82c4" stroke-width="3"/></svg>`;
